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

// Package httpserver serves HTTP to clients of which most are not known, within bounds: everything in a cluster can connect to the ports
// of a replica.
package httpserver

import (
	"bytes"
	"container/list"
	"context"
	"crypto/tls"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// maxHeaderBytes limits the header of a request. Go adds 4 KiB to it.
	maxHeaderBytes = 4 << 10
	// idleTimeout is how long a connection waits for its next request. It is longer than the 90 seconds of Go's clients, so that these close
	// idle connections first: the error of a request that is sent while the server closes the connection would reach the user.
	idleTimeout = 100 * time.Second
	// headerTimeout limits the time of the TLS handshake, and then the time from the connection, or from the first byte of a later request,
	// until a request's header is complete. It is not shorter than idleTimeout, because net/http counts the wait for the first request in it:
	// clients such as the API server connect once more than they need when several requests begin at once, and keep such a connection without
	// having sent anything on it. Go's http.Transport does not repeat a request that fails on such a connection. Clients that send nothing are
	// bounded by Server.Strangers.
	headerTimeout = idleTimeout
	// shutdownTimeout is how long requests in flight may take when the server is told to end. It is above the deadline of any review.
	shutdownTimeout = 12 * time.Second
)

// Server configures an HTTP server: its name in logs, its address, TLS, its handler, and how many connections unknown clients may have;
// with 0, each connection is closed at once.
type Server struct {
	// Name is the name of the server in logs.
	Name string
	// Address is where the server listens, as in net.Listen.
	Address string
	// TLS is nil for plain HTTP.
	TLS *tls.Config
	// Strangers is the maximum number of open connections of unknown clients. A client is unknown until WithoutStrangers serves a request of
	// it. Beyond the maximum, the oldest connection of the address with the most is closed. So clients that connect and do nothing take
	// little memory, at most about 60 KB for each connection, and keep no client of another address away.
	Strangers int
	Handler   http.Handler // serves all requests, those of authenticated clients through WithoutStrangers
}

// Runnable returns the server as a part of a manager. It listens and serves while the manager runs, on every replica, and before the
// manager's caches are filled.
func (s Server) Runnable() *manager.Server {
	strangers := &strangers{limit: s.Strangers, oldest: list.New(), places: map[net.Conn]*list.Element{}, of: map[string]int{}}
	timeout := shutdownTimeout
	return &manager.Server{Name: s.Name, Listener: s.listener(), ShutdownTimeout: &timeout, Server: &http.Server{
		Handler:           s.Handler,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		ConnState:         strangers.observe,
		ErrorLog:          log.New(&errorLog{}, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, contextKey{}, func() { strangers.remove(c) })
		},
	}}
}

// listener returns a listener at the address that begins to listen when it is first used.
func (s Server) listener() net.Listener {
	return &lateListener{address: address(s.Address), listen: sync.OnceValues(func() (net.Listener, error) {
		l, err := net.Listen("tcp", s.Address)
		if err != nil || s.TLS == nil {
			return l, err
		}
		return tls.NewListener(l, s.TLS), nil
	})}
}

// lateListener is a listener that begins to listen when it is first used.
type lateListener struct {
	address address
	listen  func() (net.Listener, error) // begins to listen in its first call, and returns the same listener each time
}

// Accept begins to listen, if that was not done yet, and waits for a connection. It implements net.Listener.
func (l *lateListener) Accept() (net.Conn, error) {
	listener, err := l.listen()
	if err != nil {
		return nil, err
	}
	return listener.Accept()
}

// Close ends listening. If the listener was not used yet, it begins to listen first. Close implements net.Listener.
func (l *lateListener) Close() error {
	listener, err := l.listen()
	if err != nil {
		return err
	}
	return listener.Close()
}

// Addr returns Server.Address, whether or not the listener listens yet. It implements net.Listener.
func (l *lateListener) Addr() net.Addr { return l.address }

// address is the net.Addr of a TCP listener.
type address string

// Network returns "tcp". It implements net.Addr.
func (address) Network() string { return "tcp" }

// String returns the address as Server.Address has it. It implements net.Addr.
func (a address) String() string { return string(a) }

// contextKey is the key, in the context of a request, of a function that removes the request's connection from those of unknown clients.
type contextKey struct{}

// WithoutStrangers returns a handler that counts the client of each request as known from then on, so that Server.Strangers does not limit
// its connection. Pass it only requests whose client is authenticated.
func WithoutStrangers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if known, ok := r.Context().Value(contextKey{}).(func()); ok {
			known()
		}
		next.ServeHTTP(w, r)
	})
}

// errorLog writes a server's errors to the standard logger. It writes at most one error of a TLS handshake per second, since unknown
// clients can cause any number of them. last is the Unix time of the last one, in seconds. It is safe for concurrent use.
type errorLog struct{ last atomic.Int64 }

// Write writes one error, but not one of a TLS handshake in the same second as another. It implements io.Writer, and always succeeds.
func (l *errorLog) Write(text []byte) (int, error) {
	now := time.Now().Unix()
	if !bytes.HasPrefix(text, []byte("http: TLS handshake error")) || l.last.Swap(now) != now {
		log.Print(string(text))
	}
	return len(text), nil
}

// strangers has the open connections of unknown clients. It is safe for concurrent use.
type strangers struct {
	limit int // the maximum number of connections

	mu     sync.Mutex
	oldest *list.List                 // has a stranger for each connection, the oldest first
	places map[net.Conn]*list.Element // the element of oldest for each connection
	of     map[string]int             // the number of connections by address of the client
}

// stranger is an open connection of an unknown client, and the address of that client.
type stranger struct {
	connection net.Conn
	// address is that of the client, without the port.
	address string
}

// observe adds a new connection, and closes the one that exceeds the limit; it removes a closed connection.
func (s *strangers) observe(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		old := s.add(c)
		// No connection is accepted meanwhile, and the end of a TLS session waits for a client that does not read.
		if secured, ok := old.(*tls.Conn); ok {
			old = secured.NetConn()
		}
		if old != nil {
			// It may be closed already, and then this has no effect.
			_ = old.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.remove(c)
	}
}

// add adds a connection. If there are then more than the limit, it removes and returns the one that must be closed, the oldest of the
// address with the most; otherwise, it returns nil.
func (s *strangers) add(c net.Conn) net.Conn {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[c] = s.oldest.PushBack(stranger{c, address})
	s.of[address]++
	if s.oldest.Len() <= s.limit {
		return nil
	}
	most := slices.Max(slices.Collect(maps.Values(s.of)))
	for place := s.oldest.Front(); place != nil; place = place.Next() {
		if old, _ := place.Value.(stranger); s.of[old.address] == most {
			s.forget(old.connection)
			return old.connection
		}
	}
	return nil
}

// remove removes a connection because it is closed, or its client is known.
func (s *strangers) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c)
}

// forget removes a connection, if it is there. The caller holds mu.
func (s *strangers) forget(c net.Conn) {
	place, ok := s.places[c]
	if !ok {
		return
	}
	delete(s.places, c)
	old, _ := s.oldest.Remove(place).(stranger)
	if s.of[old.address]--; s.of[old.address] == 0 {
		delete(s.of, old.address)
	}
}
