/*
Copyright 2026 The Berth Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package httpserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/berth-dev/berth/internal/httpserver"
)

// start starts a server and returns its address. The path /known is that of clients who are known.
func start(t *testing.T, strangers int) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	mux.Handle("/", answer)
	mux.Handle("/known", httpserver.WithoutStrangers(answer))
	server := httpserver.Server{Name: "test", Address: "127.0.0.1:0", Strangers: strangers, Handler: mux}.Runnable()
	var err error
	if server.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	return server.Listener.Addr().String()
}

// client is a connection to a server.
type client struct {
	net.Conn
	t      *testing.T
	answer *bufio.Reader
}

func connect(t *testing.T, address string) *client {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{c, t, bufio.NewReader(c)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// get sends a request, and returns the response's body, or "closed".
func (c *client) get(path string) string {
	c.t.Helper()
	c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
	response, err := http.ReadResponse(c.answer, nil)
	if err != nil {
		return "closed"
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(body)
}

// status returns the status of the next response, or 0 if there is none.
func (c *client) status() int {
	response, err := http.ReadResponse(c.answer, nil)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// closed waits until the server closes the connection.
func (c *client) closed() {
	c.t.Helper()
	if text, err := io.ReadAll(c.answer); len(text) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		c.t.Errorf("the server sent %q, %v", text, err)
	}
}

func TestStrangers(t *testing.T) {
	address := start(t, 3)
	known := connect(t, address)
	if got := known.get("/known"); got != "/known" {
		t.Fatalf("got %s", got)
	}
	var strangers []*client
	for range 3 {
		c := connect(t, address)
		c.send("GET / HTTP/1.1\r\n")
		strangers = append(strangers, c)
	}
	// A request alone makes no client known.
	fourth := connect(t, address)
	if got := fourth.get("/"); got != "/" {
		t.Errorf("got %s", got)
	}
	strangers[0].closed()
	fifth := connect(t, address)
	if got := fifth.get("/known"); got != "/known" {
		t.Errorf("got %s", got)
	}
	strangers[1].closed()
	// The fifth is known by now and the second was closed for it, so that there is room for one.
	sixth := connect(t, address)
	for path, c := range map[string]*client{"/3": strangers[2], "/4": fourth, "/5": fifth, "/6": sixth, "/known": known} {
		if c == strangers[2] {
			c.send("Host: a\r\n\r\n")
			if status := c.status(); status != http.StatusOK {
				t.Errorf("the third stranger got %d", status)
			}
			continue
		}
		if got := c.get(path); got != path {
			t.Errorf("%s: got %s", path, got)
		}
	}
	// Connections that are closed make room.
	_ = sixth.Close()
	_ = fourth.Close()
	_ = strangers[2].Close()
	for range 3 {
		if got := connect(t, address).get("/7"); got != "/7" {
			t.Errorf("got %s", got)
		}
	}
}

func TestHeaders(t *testing.T) {
	address := start(t, 3)
	c := connect(t, address)
	c.send("GET / HTTP/1.1\r\nHost: a\r\nLarge: " + strings.Repeat("a", 4<<10-100) + "\r\n\r\n")
	if status := c.status(); status != http.StatusOK {
		t.Errorf("a header of 4 KiB got %d", status)
	}
	c = connect(t, address)
	c.send("GET / HTTP/1.1\r\nHost: a\r\nLarge: " + strings.Repeat("a", 16<<10))
	if status := c.status(); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 16 KiB without its end got %d", status)
	}
}

// TestShutdown checks that a server ends in time though a request does not, and lets others end.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forever, slow := make(chan struct{}), make(chan struct{})
		mux := http.NewServeMux()
		mux.HandleFunc("/forever", func(http.ResponseWriter, *http.Request) { <-forever })
		mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { <-slow; fmt.Fprint(w, r.URL.Path) })
		server := httpserver.Server{Name: "test", Strangers: 10, Handler: mux}.Runnable()
		connections := make(pipes)
		server.Listener = connections
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Start(ctx) }()
		connect := func() *client {
			here, there := net.Pipe()
			connections <- there
			return &client{here, t, bufio.NewReader(here)}
		}
		hangs, answered := connect(), connect()
		go func() { _, _ = io.WriteString(hangs, "GET /forever HTTP/1.1\r\nHost: a\r\n\r\n") }()
		answers := make(chan string, 1)
		go func() { answers <- answered.get("/slow") }()
		synctest.Wait()

		told := time.Now()
		cancel()
		synctest.Wait()
		close(slow)
		if got := <-answers; got != "/slow" {
			t.Errorf("a request in flight got %s", got)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(told); took > 15*time.Second {
			t.Errorf("the server ended after %s", took)
		}
		close(forever)
		_ = hangs.Close()
		_ = answered.Close()
	})
}

// serve serves connections in memory, until the test ends.
func serve(t *testing.T, strangers int) pipes {
	t.Helper()
	server := httpserver.Server{
		Name: "test", Strangers: strangers,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }),
	}.Runnable()
	connections := make(pipes)
	server.Listener = connections
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return connections
}

// TestUnused checks that a client may send its first request as late as a later one: Go's clients keep a connection for 90 seconds on
// which they have sent nothing yet, and report an error if it is closed while they send.
func TestUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connections := serve(t, 1)
		here, there := net.Pipe()
		connections <- there
		defer here.Close()
		c := &client{here, t, bufio.NewReader(here)}
		kept := http.DefaultTransport.(*http.Transport).IdleConnTimeout
		for _, path := range []string{"/first", "/second"} {
			<-time.After(kept + time.Second)
			if got := c.get(path); got != path {
				t.Errorf("after %s, %s: got %s", kept, path, got)
			}
		}
		asked := time.Now()
		c.closed()
		if waited := time.Since(asked); waited > 2*kept {
			t.Errorf("the server keeps an idle connection for %s", waited)
		}
	})
}

// TestAddresses checks that a client keeps none of another address away, however often it connects.
func TestAddresses(t *testing.T) {
	const limit = 6
	for name, flood := range map[string][]string{
		"one address":         {"10.0.0.1"},
		"one address of IPv6": {"fd00::1"},
		"two addresses":       {"10.0.0.1", "10.0.0.2"},
		"unequal addresses":   {"10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				connections := serve(t, limit)
				connect := func(host string) *client {
					here, there := net.Pipe()
					connections <- remote{there, address(net.JoinHostPort(host, "1"))}
					t.Cleanup(func() { _ = here.Close() })
					return &client{here, t, bufio.NewReader(here)}
				}
				honest := []*client{connect("10.0.0.9"), connect("fd00::9")}
				for i := range 10 * limit {
					connect(flood[i%len(flood)])
				}
				for _, c := range honest {
					if got := c.get("/"); got != "/" {
						t.Errorf("got %s", got)
					}
				}
			})
		})
	}
}

// TestStalled checks that a client that reads nothing does not keep the server from accepting others when it must give way.
func TestStalled(t *testing.T) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		connections := serve(t, 1)
		connect := func() *client {
			here, there := net.Pipe()
			connections <- tls.Server(there, &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true})
			t.Cleanup(func() { _ = here.Close() })
			//nolint:gosec // The test verifies no certificates.
			secured := tls.Client(here, &tls.Config{InsecureSkipVerify: true})
			if err := secured.Handshake(); err != nil {
				t.Fatal(err)
			}
			return &client{secured, t, bufio.NewReader(secured)}
		}
		began := time.Now()
		for range 3 {
			connect()
		}
		if got := connect().get("/"); got != "/" {
			t.Errorf("got %s", got)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the server accepted nothing for %s", took)
		}
	})
}

// TestErrorLog checks that clients do not fill the log by handshakes that fail.
func TestErrorLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		log.SetOutput(&lines)
		defer log.SetOutput(os.Stderr)
		errors := httpserver.Server{}.Runnable().Server.ErrorLog
		for range 3 {
			for range 1000 {
				errors.Print("http: TLS handshake error from 10.0.0.1:1: EOF")
			}
			<-time.After(time.Second)
		}
		errors.Print("http: panic serving 10.0.0.1:1: a")
		errors.Print("http: panic serving 10.0.0.1:1: b")
		if got := strings.Count(lines.String(), "\n"); got != 5 {
			t.Errorf("got %d lines:\n%.1000s", got, lines.String())
		}
	})
}

// remote is a connection of a client with the given address.
type remote struct {
	net.Conn
	address
}

func (r remote) RemoteAddr() net.Addr { return r.address }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }
