package quotaload_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// proxy is one address for all replicas, as a Service is: it hands the API server's connections to one replica after
// the other.
type proxy struct {
	listener net.Listener

	mu       sync.Mutex
	backends []*backend
	// only is where new connections go if it is set.
	only *backend
	next int
	// requests counts connections, for those that want to know whether there were any.
	connections atomic.Int64
}

// backend is one replica as the proxy sees it.
type backend struct {
	address string
	dead    bool
	links   map[*link]bool
}

// link is one connection from the API server to a replica.
type link struct {
	client, server net.Conn
	// muted drops what the replica answers.
	muted atomic.Bool
}

func startProxy() *proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{listener: listener}
	go p.serve()
	return p
}

// url is what the API server is told to call.
func (p *proxy) url() string {
	_, port, _ := net.SplitHostPort(p.listener.Addr().String())
	return "https://localhost:" + port
}

// add adds the replica with this URL.
func (p *proxy) add(url string) *backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &backend{address: strings.Replace(strings.TrimPrefix(url, "https://"), "localhost", "127.0.0.1", 1), links: map[*link]bool{}}
	p.backends = append(p.backends, b)
	return b
}

func (p *proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.connections.Add(1)
		p.connect(conn)
	}
}

func (p *proxy) connect(conn net.Conn) {
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
func (p *proxy) pick(conn net.Conn) (*backend, *link) {
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
		return b, l
	}
	return nil, nil
}

func (p *proxy) drop(b *backend, l *link) {
	l.client.Close()
	l.server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(b.links, l)
}

// direct ends all connections and has new ones go to one replica alone; nil for all again.
func (p *proxy) direct(to *backend) {
	p.mu.Lock()
	p.only = to
	p.mu.Unlock()
	for _, b := range p.backends {
		p.cut(b)
	}
}

// kill ends all connections with a replica and makes no more.
func (p *proxy) kill(b *backend) {
	p.mu.Lock()
	b.dead = true
	p.mu.Unlock()
	p.cut(b)
}

// cut ends all connections with a replica.
func (p *proxy) cut(b *backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range b.links {
		l.client.Close()
		l.server.Close()
	}
}

// mute lets requests through to a replica on the connections that there are, and no answers back. It returns how many
// those are.
func (p *proxy) mute(b *backend) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range b.links {
		l.muted.Store(true)
	}
	return len(b.links)
}

func (p *proxy) stop() {
	p.listener.Close()
	for _, b := range p.backends {
		p.kill(b)
	}
}
