// The one program of the test images: a process that runs until it is stopped.
//
// It prints VERSION, which each image sets to a value of its own. With an argument it does one thing and ends:
// `touch FILE` writes a file, `fail` ends with 3.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		once(os.Args[1:])
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	fmt.Println("running", os.Getenv("VERSION"))
	fmt.Println("stopped by", <-stop)
	lasts, _ := time.ParseDuration(os.Getenv("STOP_TAKES"))
	time.Sleep(lasts)
}

func once(words []string) {
	switch words[0] {
	case "touch":
		if err := os.WriteFile(words[1], []byte(time.Now().Format(time.RFC3339Nano)+"\n"), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "fail":
		fmt.Fprintln(os.Stderr, "failed as asked")
		os.Exit(3)
	}
	fmt.Fprintln(os.Stderr, "unknown:", words[0])
	os.Exit(2)
}
