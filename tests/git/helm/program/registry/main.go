// Command registry serves OCI charts from memory, by a configuration on standard input. It has the
// parts of the distribution registry that the tests need, and none of its clouds.
package main

import (
	"context"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	config, err := configuration.Parse(os.Stdin)
	if err != nil {
		panic(err)
	}
	served, err := registry.NewRegistry(context.Background(), config)
	if err != nil {
		panic(err)
	}
	panic(served.ListenAndServe())
}
