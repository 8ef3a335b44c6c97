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

// Package opaserver runs the real OPA server for tests. It needs nothing of the operator, so that its own packages can
// be tested with it.
package opaserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

const (
	pollInterval = 20 * time.Millisecond
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	// grace is for how many seconds a server that is stopped waits for requests. Clients keep connections, and a server
	// that is idle ends at once.
	grace = "2"
	// adminToken is what the package itself shows where tokens are wanted.
	adminToken = "opaserver-admin"
	// tokensPath is where the server has the tokens that it takes.
	tokensPath = "opaserver/tokens"
)

// authorization is the server's own policy where tokens are wanted. Without one, or with a wrong one, OPA answers 401.
const authorization = `package system.authz

default allow := false

allow if data.opaserver.tokens[input.identity]
`

// Options say how a server is run. The zero value is plain HTTP for all clients.
type Options struct {
	// Certificate and Key, in PEM, make the server speak https. SetCertificate replaces them.
	Certificate, Key []byte
	// ClientCA, in PEM, are the authorities of clients: a client needs a certificate of one of them. It needs a
	// certificate, and excludes Tokens, since OPA knows clients by one of the two.
	ClientCA []byte
	// Tokens are the accepted bearer tokens. If it is nil, clients need no token. SetTokens replaces them.
	Tokens []string
	// Files are loaded at every start, by their names, as in policy.rego and data.json.
	Files map[string]string
	// Flags are added to those of opa run.
	Flags []string
}

// Server is a real OPA server on a loopback port, which survives restarts. Failures end the test. It is not safe for
// concurrent use, apart from URL and LogPath.
type Server struct {
	t       testing.TB
	options Options
	group   *process.Group
	binary  string
	port    int
	process *process.Process
	admin   *http.Client
	// ctx does not end with the test, so that what cleans up can still ask. It is taken once, since each of a spec's contexts
	// is one more to be cleaned up.
	ctx context.Context
}

// Start starts a server, and ends it with the test or spec: hand in GinkgoTB() for the latter, also in a BeforeSuite. The
// binary is the one that make opa builds. With -short the test is skipped.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("a unit test runs no OPA server")
	}
	binary, err := controlplane.OPA()
	must(t, err)
	if len(options.ClientCA) > 0 && (len(options.Tokens) > 0 || len(options.Certificate) == 0) {
		t.Fatal("ClientCA needs a Certificate and excludes Tokens")
	}
	// A socket's path has to be short, which those of tests' own directories are not.
	dir, err := os.MkdirTemp("", "opa-")
	must(t, err)
	group, err := process.NewGroup(dir, true)
	must(t, err)
	s := &Server{t: t, options: options, group: group, binary: binary, ctx: context.WithoutCancel(t.Context())}
	s.admin = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.socket())
	}}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("The OPA server said:\n%s", process.Tail(s.LogPath()))
		}
		s.admin.CloseIdleConnections()
		var err error
		if s.process != nil {
			// A process that is reaped has left its port; one that was only killed, not yet.
			err = s.process.Kill()
		}
		if err := errors.Join(err, s.group.Close()); err != nil {
			t.Errorf("ending the OPA server: %v", err)
		}
	})
	s.write("cert.pem", options.Certificate)
	s.write("key.pem", options.Key)
	s.write("client-ca.pem", options.ClientCA)
	if options.Tokens != nil {
		s.write("authz.rego", []byte(authorization))
		s.writeTokens(options.Tokens)
	}
	for _, name := range slices.Sorted(maps.Keys(options.Files)) {
		s.write("file-"+name, []byte(options.Files[name]))
	}
	s.start()
	return s
}

// URL is the server's address, as in https://127.0.0.1:12345.
func (s *Server) URL() string {
	scheme := "http"
	if len(s.options.Certificate) > 0 {
		scheme = "https"
	}
	return scheme + "://" + s.Address()
}

// Address is the server's host and port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// LogPath is where the server's log is, while the test runs.
func (s *Server) LogPath() string { return s.group.LogPath("opa") }

// Stop asks the server to end, and waits until it has.
func (s *Server) Stop() {
	s.t.Helper()
	must(s.t, s.process.Stop(stopTimeout))
	s.admin.CloseIdleConnections()
}

// Kill ends the server in the middle of what it does.
func (s *Server) Kill() {
	s.t.Helper()
	must(s.t, s.process.Kill())
	s.admin.CloseIdleConnections()
}

// Restart ends the server if it runs, and starts it again at its address, with nothing but its Files.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.start()
}

// PutPolicy puts a module there.
func (s *Server) PutPolicy(id, rego string) {
	s.t.Helper()
	s.must(http.MethodPut, "/v1/policies/"+id, "text/plain", []byte(rego))
}

// DeletePolicy removes a module.
func (s *Server) DeletePolicy(id string) {
	s.t.Helper()
	s.must(http.MethodDelete, "/v1/policies/"+id, "", nil)
}

// Policies returns the texts of all modules by their ids.
func (s *Server) Policies() map[string]string {
	s.t.Helper()
	var list struct {
		Result []struct{ ID, Raw string }
	}
	must(s.t, json.Unmarshal(s.must(http.MethodGet, "/v1/policies", "", nil), &list))
	texts := map[string]string{}
	for _, p := range list.Result {
		texts[p.ID] = p.Raw
	}
	return texts
}

// PutData puts a document there, by a path as in "kubernetes/pods". Segments that have a slash are escaped.
func (s *Server) PutData(path string, document any) {
	s.t.Helper()
	body, err := json.Marshal(document)
	must(s.t, err)
	s.must(http.MethodPut, "/v1/data/"+path, "application/json", body)
}

// DeleteData removes a document.
func (s *Server) DeleteData(path string) {
	s.t.Helper()
	s.must(http.MethodDelete, "/v1/data/"+path, "", nil)
}

// GetData returns a document, evaluated without an input where it is virtual, with json.Number for numbers; ok is false
// if it is undefined.
func (s *Server) GetData(path string) (document any, ok bool) {
	s.t.Helper()
	var answer map[string]any
	decoder := json.NewDecoder(bytes.NewReader(s.must(http.MethodGet, "/v1/data/"+path, "", nil)))
	decoder.UseNumber()
	must(s.t, decoder.Decode(&answer))
	document, ok = answer["result"]
	return document, ok
}

// SetTokens replaces the tokens that the server takes, at once and for later starts.
func (s *Server) SetTokens(tokens ...string) {
	s.t.Helper()
	s.writeTokens(tokens)
	s.PutData(tokensPath, tokenSet(tokens))
}

// SetCertificate replaces the server's certificate and key. The server notices by itself, soon.
func (s *Server) SetCertificate(certificate, key []byte) {
	s.t.Helper()
	s.write("cert.pem", certificate)
	s.write("key.pem", key)
}

func (s *Server) start() {
	s.t.Helper()
	for {
		if s.port == 0 {
			ports, err := process.FreePorts(1)
			must(s.t, err)
			s.port = ports[0]
			err = s.run()
			if err == nil {
				return
			}
			// Another process took the port meanwhile.
			if strings.Contains(err.Error(), "address already in use") {
				s.port = 0
				continue
			}
			s.t.Fatal(err)
		}
		must(s.t, s.run())
		return
	}
}

// run runs the server and waits until it answers.
func (s *Server) run() (err error) {
	must(s.t, os.Remove(s.LogPath()), os.ErrNotExist)
	if s.process, err = s.group.Start("opa", s.binary, s.arguments()...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, startTimeout)
	defer cancel()
	var last error
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		select {
		case <-s.process.Done():
			return false, fmt.Errorf("it has ended: %w", s.process.Err())
		default:
		}
		last = s.answers(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("starting the OPA server: %w\n%s", errors.Join(err, last), process.Tail(s.LogPath()))
	}
	return nil
}

// answers reports whether the server listens at its port, and is well.
func (s *Server) answers(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address())
	if err != nil {
		return err
	}
	conn.Close()
	_, err = s.do(ctx, http.MethodGet, "/health", "", nil)
	return err
}

func (s *Server) arguments() []string {
	args := []string{
		"run", "--server", "--addr=" + s.Address(), "--addr=unix://" + s.socket(), "--skip-version-check",
		"--shutdown-grace-period=" + grace,
	}
	if len(s.options.Certificate) > 0 {
		args = append(args, "--tls-cert-file="+s.path("cert.pem"), "--tls-private-key-file="+s.path("key.pem"), "--tls-cert-refresh-period=100ms")
	}
	if len(s.options.ClientCA) > 0 {
		args = append(args, "--tls-ca-cert-file="+s.path("client-ca.pem"), "--authentication=tls")
	}
	args = append(args, s.options.Flags...)
	if s.options.Tokens != nil {
		args = append(args, "--authentication=token", "--authorization=basic", s.path("authz.rego"), s.path("tokens.json"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.options.Files)) {
		args = append(args, s.path("file-"+name))
	}
	return args
}

// must sends a request that has to succeed, and returns the body of the answer.
func (s *Server) must(method, path, contentType string, body []byte) []byte {
	s.t.Helper()
	answer, err := s.do(s.ctx, method, path, contentType, body)
	must(s.t, err)
	return answer
}

// do sends a request over the server's socket, where it speaks plain HTTP whatever it does at its port.
func (s *Server) do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://opa"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	request.Header.Set("Authorization", "Bearer "+adminToken)
	response, err := s.admin.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = errors.New(response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", method, path, err, answer)
	}
	return answer, nil
}

func (s *Server) path(name string) string { return filepath.Join(s.group.Dir(), name) }

func (s *Server) socket() string { return s.path("socket") }

// write replaces a file at once, since the server may look at it at any time. There is none without content.
func (s *Server) write(name string, content []byte) {
	s.t.Helper()
	if len(content) == 0 {
		return
	}
	fresh := s.path(name + ".new")
	must(s.t, os.WriteFile(fresh, content, 0o600))
	must(s.t, os.Rename(fresh, s.path(name)))
}

func (s *Server) writeTokens(tokens []string) {
	s.t.Helper()
	text, err := json.Marshal(map[string]any{"opaserver": map[string]any{"tokens": tokenSet(tokens)}})
	must(s.t, err)
	s.write("tokens.json", text)
}

func tokenSet(tokens []string) map[string]bool {
	set := map[string]bool{adminToken: true}
	for _, token := range tokens {
		set[token] = true
	}
	return set
}

// must ends the test at an error, unless it is one of those that do not count.
func must(t testing.TB, err error, but ...error) {
	t.Helper()
	if err == nil || slices.ContainsFunc(but, func(harmless error) bool { return errors.Is(err, harmless) }) {
		return
	}
	t.Fatal(err)
}
