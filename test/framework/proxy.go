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

package framework

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// Proxy is one address for all replicas, as a Service is: it hands the API server's connections to one replica after
// the other. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener

	mu       sync.Mutex
	backends []*Backend
	// only is where new connections go if it is set.
	only        *Backend
	next        int
	connections atomic.Int64
}

// Backend is one replica as the proxy sees it.
type Backend struct {
	address string
	dead    bool
	links   map[*link]bool
	made    atomic.Int64
}

// Connections returns how many connections to the replica were made so far.
func (b *Backend) Connections() int64 { return b.made.Load() }

// link is one connection from the API server to a replica.
type link struct {
	client, server net.Conn
	// muted drops what the replica answers.
	muted atomic.Bool
}

// StartProxy starts a proxy that has no replicas yet. The spec's end stops it.
func StartProxy() *Proxy {
	ginkgo.GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	p := &Proxy{listener: listener}
	go p.serve()
	ginkgo.DeferCleanup(p.stop)
	return p
}

// Connections returns how many connections were made to the proxy so far.
func (p *Proxy) Connections() int64 { return p.connections.Load() }

// URL is what the API server is told to call.
func (p *Proxy) URL() string {
	_, port, _ := net.SplitHostPort(p.listener.Addr().String())
	return "https://localhost:" + port
}

// Add adds the replica with this URL.
func (p *Proxy) Add(url string) *Backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &Backend{address: strings.Replace(strings.TrimPrefix(url, "https://"), "localhost", "127.0.0.1", 1), links: map[*link]bool{}}
	p.backends = append(p.backends, b)
	return b
}

func (p *Proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.connections.Add(1)
		p.connect(conn)
	}
}

func (p *Proxy) connect(conn net.Conn) {
	b, l := p.pick(conn)
	if l == nil {
		conn.Close()
		return
	}
	go func() {
		_, _ = io.Copy(l.server, conn)
		p.drop(b, l)
	}()
	go func() {
		_, _ = io.Copy(answers{l}, l.server)
		p.drop(b, l)
	}()
}

// answers is where a replica's answers go.
type answers struct{ *link }

func (a answers) Write(data []byte) (int, error) {
	if a.muted.Load() {
		return len(data), nil
	}
	return a.client.Write(data)
}

// pick connects with the next replica that lives.
func (p *Proxy) pick(conn net.Conn) (*Backend, *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.backends {
		b := p.backends[p.next%len(p.backends)]
		p.next++
		if p.only != nil {
			b = p.only
		}
		if b.dead {
			continue
		}
		server, err := net.Dial("tcp", b.address)
		if err != nil {
			continue
		}
		l := &link{client: conn, server: server}
		b.links[l] = true
		b.made.Add(1)
		return b, l
	}
	return nil, nil
}

func (p *Proxy) drop(b *Backend, l *link) {
	l.client.Close()
	l.server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(b.links, l)
}

// Direct ends all connections and has new ones go to one replica alone; nil for all again.
func (p *Proxy) Direct(to *Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.only = to
	for _, b := range p.backends {
		b.cut()
	}
}

// Kill ends all connections with a replica and makes no more.
func (p *Proxy) Kill(b *Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.kill()
}

// kill is Kill. The proxy is locked.
func (b *Backend) kill() {
	b.dead = true
	b.cut()
}

// cut ends all connections with a replica. The proxy is locked.
func (b *Backend) cut() {
	for l := range b.links {
		l.client.Close()
		l.server.Close()
	}
}

// Mute lets requests through to a replica on the connections that there are, and no answers back. It returns how many
// those are.
func (p *Proxy) Mute(b *Backend) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range b.links {
		l.muted.Store(true)
	}
	return len(b.links)
}

func (p *Proxy) stop() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		b.kill()
	}
}
