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
	"net/url"
	"sync"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// Link is the network between a replica and the API server. It can stop forwarding without closing a connection, as a
// network does that drops packets. It is safe for concurrent use.
type Link struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	moved  *sync.Cond
	paused bool
	closed bool
	conns  []net.Conn
}

// StartLink starts a link to the API server of a configuration, and returns a copy of the configuration that uses it.
// The spec's end stops it.
func StartLink(config *rest.Config) (*Link, *rest.Config) {
	ginkgo.GinkgoHelper()
	target, err := url.Parse(config.Host)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	if target.Host == "" {
		target.Host = config.Host
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	l := &Link{listener: listener, target: target.Host}
	l.moved = sync.NewCond(&l.mu)
	go l.serve()
	ginkgo.DeferCleanup(l.stop)
	through := rest.CopyConfig(config)
	through.Host = "https://" + listener.Addr().String()
	return l, through
}

// Pause stops forwarding in both directions; Resume goes on with what was held back.
func (l *Link) Pause() { l.set(true) }

// Resume undoes Pause.
func (l *Link) Resume() { l.set(false) }

func (l *Link) set(paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = paused
	l.moved.Broadcast()
}

func (l *Link) serve() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			conn.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, conn, server)
		l.mu.Unlock()
		go l.forward(server, conn)
		go l.forward(conn, server)
	}
}

// forward copies one direction until either side ends.
func (l *Link) forward(to, from net.Conn) {
	_, _ = io.Copy(gate{l, to}, from)
	to.Close()
	from.Close()
}

// gate holds back what is written while the link is paused.
type gate struct {
	*Link
	to io.Writer
}

func (g gate) Write(data []byte) (int, error) {
	g.mu.Lock()
	for g.paused && !g.closed {
		g.moved.Wait()
	}
	g.mu.Unlock()
	return g.to.Write(data)
}

func (l *Link) stop() {
	l.listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.moved.Broadcast()
	for _, c := range l.conns {
		c.Close()
	}
}
