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

// Package faultproxy is a proxy between a client and an HTTP server, and does to requests and answers what networks and
// servers do on bad days. It needs nothing of the operator, so that its own packages can be tested with it.
package faultproxy

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// maxBody bounds what is kept of requests and answers.
const maxBody = 256 << 20

// Options say where a proxy hands requests on to, and what it is itself.
type Options struct {
	// Target is the server's address, as in http://127.0.0.1:8181. What its certificate is does not matter.
	Target string
	// Certificate and Key, in PEM, make the proxy speak https.
	Certificate, Key []byte
	// TargetTLS is how the proxy speaks with a server that wants clients' certificates.
	TargetTLS *tls.Config
}

// Proxy speaks HTTP/1.1 on a loopback port. Without a fault it hands requests on unchanged. It is safe for concurrent
// use.
type Proxy struct {
	t        testing.TB
	target   string
	secure   bool
	listener net.Listener
	server   *http.Server
	client   *http.Transport
	ended    chan struct{}
	handlers sync.WaitGroup

	certificate atomic.Pointer[tls.Certificate]
	choose      atomic.Pointer[func(*http.Request) Fault]
	requests    atomic.Int64
	accepted    atomic.Int64

	mu    sync.Mutex
	conns map[*conn]bool
	met   map[string]int64
	// closed says that no request is taken any more.
	closed bool
}

// Start starts a proxy without faults. The test's or spec's end stops it.
func Start(t testing.TB, options Options) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if options.TargetTLS == nil {
		options.TargetTLS = &tls.Config{InsecureSkipVerify: true}
	}
	p := &Proxy{
		t: t, target: strings.TrimSuffix(options.Target, "/"), secure: len(options.Certificate) > 0, listener: listener,
		client: &http.Transport{TLSClientConfig: options.TargetTLS, MaxIdleConnsPerHost: 64, DisableCompression: true},
		ended:  make(chan struct{}), conns: map[*conn]bool{}, met: map[string]int64{},
	}
	p.Set(Fault{})
	p.server = &http.Server{Handler: p, ErrorLog: log.New(io.Discard, "", 0)}
	accept := net.Listener(&acceptor{Listener: listener, proxy: p})
	if p.secure {
		p.SetCertificate(options.Certificate, options.Key)
		accept = tls.NewListener(accept, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return p.certificate.Load(), nil
		}})
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		// It ends when the proxy is closed, by which error does not matter.
		_ = p.server.Serve(accept)
	}()
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		close(p.ended)
		// It knows nothing of connections that were taken from it, hence Cut, and has nothing to say of the others.
		_ = p.server.Close()
		<-served
		p.Cut()
		p.handlers.Wait()
		p.client.CloseIdleConnections()
	})
	return p
}

// URL is the proxy's address, as in https://127.0.0.1:12345.
func (p *Proxy) URL() string {
	if p.secure {
		return "https://" + p.listener.Addr().String()
	}
	return "http://" + p.listener.Addr().String()
}

// Set has every request and connection from now on meet a fault; Fault{} ends that.
func (p *Proxy) Set(f Fault) { p.Choose(func(*http.Request) Fault { return f }) }

// Choose has every request from now on meet the fault that choose returns for it, and each connection that is made, with a
// request that is nil. It has to be safe for concurrent use.
func (p *Proxy) Choose(choose func(*http.Request) Fault) { p.choose.Store(&choose) }

// SetCertificate replaces the certificate that clients see at their next connection.
func (p *Proxy) SetCertificate(certificate, key []byte) {
	p.t.Helper()
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		p.t.Fatal(err)
	}
	p.certificate.Store(&pair)
}

// Cut resets all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	conns := maps.Clone(p.conns)
	p.mu.Unlock()
	for c := range conns {
		c.reset()
	}
}

// Requests returns how many requests came so far.
func (p *Proxy) Requests() int64 { return p.requests.Load() }

// Connections returns how many connections clients made so far.
func (p *Proxy) Connections() int64 { return p.accepted.Load() }

// Open returns how many connections of clients are open.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Met returns how many requests and connections met which fault so far.
func (p *Proxy) Met() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.met)
}

func (p *Proxy) meet(r *http.Request) Fault {
	f := (*p.choose.Load())(r)
	if f.Name != "" && (r != nil || f.accept) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.met[f.Name]++
	}
	return f
}

// begin counts a request in, unless the proxy is closed.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.handlers.Add(1)
		p.requests.Add(1)
	}
	return !p.closed
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.begin() {
		panic(http.ErrAbortHandler)
	}
	defer p.handlers.Done()
	// Read in full, so that the server notices when the client goes.
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	e := &exchange{proxy: p, w: w, request: r, body: body}
	f := p.meet(r)
	wait := f.wait
	if f.jitter > 0 {
		wait += rand.N(f.jitter)
	}
	if wait > 0 && !e.wait(wait) {
		panic(http.ErrAbortHandler)
	}
	if f.act == nil {
		f.act = (*exchange).pass
	}
	defer e.end()
	f.act(e)
}

// exchange is a request on its way.
type exchange struct {
	proxy   *Proxy
	w       http.ResponseWriter
	request *http.Request
	body    []byte
	// taken is the connection itself, once the server has let go of it.
	taken net.Conn
	// broken says that nothing can be written to it any more.
	broken bool
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

// ask hands the request on. Where there is no answer the client's connection is reset.
func (e *exchange) ask() reply {
	request, err := http.NewRequestWithContext(e.request.Context(), e.request.Method, e.proxy.target+e.request.URL.RequestURI(),
		bytes.NewReader(e.body))
	if err != nil {
		e.abort()
	}
	request.Header = e.request.Header.Clone()
	request.Header.Del("Connection")
	// Asked again, without telling, where a kept connection turns out to be closed: a server that was restarted is no fault.
	request.Header["Idempotency-Key"] = nil
	response, err := e.proxy.client.RoundTrip(request)
	if err != nil {
		e.abort()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		e.abort()
	}
	return reply{status: response.StatusCode, header: response.Header, body: body}
}

// abort ends the handler and the connection with it.
func (e *exchange) abort() {
	e.reset()
	panic(http.ErrAbortHandler)
}

// pass answers what the target answers.
func (e *exchange) pass() {
	a := e.ask()
	e.respond(a.status, a.header, a.body)
}

// respond answers in an orderly way.
func (e *exchange) respond(status int, header http.Header, body []byte) {
	maps.Copy(e.w.Header(), header)
	e.w.Header().Del("Connection")
	e.w.WriteHeader(status)
	// An error means that the client does not read the response.
	_, _ = e.w.Write(body)
}

// half announces the target's answer in full, and gives half of it.
func (e *exchange) half() {
	a := e.ask()
	e.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(a.body), a.body[:len(a.body)/2])
}

// raw takes the connection from the server, and writes into it.
func (e *exchange) raw(format string, args ...any) { e.write(fmt.Appendf(nil, format, args...)) }

// write is raw for bytes. It reports whether the client may read more.
func (e *exchange) write(data []byte) bool {
	_, err := e.Write(data)
	return err == nil
}

// Write implements io.Writer on the connection itself.
func (e *exchange) Write(data []byte) (int, error) {
	if e.broken {
		return 0, net.ErrClosed
	}
	n, err := e.take().Write(data)
	e.broken = err != nil
	return n, err
}

// take takes the connection from the server.
func (e *exchange) take() net.Conn {
	if e.taken == nil {
		taken, _, err := http.NewResponseController(e.w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		e.taken = taken
	}
	return e.taken
}

// reset ends the connection so that the client sees a reset.
func (e *exchange) reset() {
	c := e.take()
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if raw, ok := c.(*conn); ok {
		raw.reset()
	}
	e.broken = true
}

// end closes a connection that was taken from the server.
func (e *exchange) end() {
	if e.taken != nil {
		e.taken.Close()
	}
}

// wait waits, and reports whether the client is still there.
func (e *exchange) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.request.Context().Done():
	case <-e.proxy.ended:
	}
	return false
}

// acceptor counts connections, and refuses those that meet such a fault.
type acceptor struct {
	net.Listener
	proxy *Proxy
}

func (a *acceptor) Accept() (net.Conn, error) {
	for {
		raw, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		a.proxy.accepted.Add(1)
		c := &conn{Conn: raw, proxy: a.proxy}
		a.proxy.mu.Lock()
		a.proxy.conns[c] = true
		a.proxy.mu.Unlock()
		if !a.proxy.meet(nil).accept {
			return c, nil
		}
		c.reset()
	}
}

// conn is a client's connection.
type conn struct {
	net.Conn
	proxy *Proxy
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.proxy.mu.Lock()
	delete(c.proxy.conns, c)
	c.proxy.mu.Unlock()
	return c.Conn.Close()
}

// reset closes the connection with a reset.
func (c *conn) reset() {
	if raw, ok := c.Conn.(*net.TCPConn); ok {
		// A connection that is closed already needs none.
		_ = raw.SetLinger(0)
	}
	_ = c.Close()
}
