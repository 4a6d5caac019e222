// What goes over the wire: content types asked for and got, and the events of watches.
package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
)

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	json     = "application/json"
)

// Traffic counts what a program of the cluster sees. Safe for concurrent use.
type Traffic struct {
	mutex                                        sync.Mutex
	ProtobufAsked, ProtobufSent, ProtobufGot     int
	JSONGot, Refused, Watches, BookmarksAsked    int
	Bookmarks, InitialEventsAsked, InitialEvents int
}

func (t *Traffic) count(what *int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	*what++
}

// seen is a copy without the lock.
func (t *Traffic) seen() map[string]int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return map[string]int{
		"protobuf asked": t.ProtobufAsked, "protobuf sent": t.ProtobufSent, "protobuf got": t.ProtobufGot,
		"json got": t.JSONGot, "media types refused": t.Refused,
		"watches": t.Watches, "bookmarks asked": t.BookmarksAsked, "bookmarks": t.Bookmarks,
		"initial events asked": t.InitialEventsAsked, "initial events ended": t.InitialEvents,
	}
}

type counting struct {
	next    http.RoundTripper
	traffic *Traffic
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	t, query := c.traffic, request.URL.Query()
	if strings.HasPrefix(request.Header.Get("Accept"), protobuf) {
		t.count(&t.ProtobufAsked)
	}
	if request.Header.Get("Content-Type") == protobuf {
		t.count(&t.ProtobufSent)
	}
	watch := query.Get("watch") == "true" || query.Get("watch") == "1"
	if watch {
		t.count(&t.Watches)
		if query.Get("allowWatchBookmarks") == "true" {
			t.count(&t.BookmarksAsked)
		}
		if query.Get("sendInitialEvents") == "true" {
			t.count(&t.InitialEventsAsked)
		}
	}
	response, err := c.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	switch got := response.Header.Get("Content-Type"); {
	case response.StatusCode == http.StatusNotAcceptable, response.StatusCode == http.StatusUnsupportedMediaType:
		t.count(&t.Refused)
	case strings.HasPrefix(got, protobuf):
		t.count(&t.ProtobufGot)
	case strings.HasPrefix(got, json):
		t.count(&t.JSONGot)
	}
	if watch {
		response.Body = &events{body: response.Body, traffic: t}
	}
	return response, nil
}

// events looks for bookmarks in what a watch reads; one may come in two pieces.
type events struct {
	body    io.ReadCloser
	traffic *Traffic
	rest    []byte
}

var (
	bookmark = []byte(`BOOKMARK`)
	ended    = []byte(`k8s.io/initial-events-end`)
)

func (e *events) Read(into []byte) (int, error) {
	n, err := e.body.Read(into)
	e.rest = append(e.rest, into[:n]...)
	for range bytes.Count(e.rest, bookmark) {
		e.traffic.count(&e.traffic.Bookmarks)
	}
	for range bytes.Count(e.rest, ended) {
		e.traffic.count(&e.traffic.InitialEvents)
	}
	e.rest = tail(e.rest)
	return n, err
}

func (e *events) Close() error { return e.body.Close() }

// tail keeps what may be the beginning of a mark, with any whole mark in it broken.
func tail(seen []byte) []byte {
	for _, mark := range [][]byte{ended, bookmark} {
		for size := min(len(mark)-1, len(seen)); size > 0; size-- {
			if end := seen[len(seen)-size:]; bytes.HasPrefix(mark, end) {
				return append([]byte(nil), end...)
			}
		}
	}
	return nil
}
