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

// Command build compiles the control plane for the tests, the demo, and the development cluster: etcd, kube-apiserver,
// kubectl, kube-controller-manager, and kube-scheduler. Run it in hack/controlplane.
//
// With -demo it only builds the first three. With -nodes it also builds the programs of a node: kubelet and kube-proxy.
// With -prebuilt it downloads the first three if possible, unless they are already compiled. With -apiserver it only
// builds kube-apiserver; run that in a directory of hack/controlplane/compat, which pins another minor release of
// Kubernetes.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// heartbeat is the interval at which a running build reports progress. Compiling kube-apiserver without a cache takes
// minutes.
const heartbeat = 10 * time.Second

const advice = "If modules could not be downloaded, check the network and `go env GOPROXY`; if the disk is full, free some GB; " +
	"then run `make controlplane` again: what was downloaded and compiled so far is cached."

// etcdSource is the source file of the etcd command.
const etcdSource = "etcd/main.go"

type component struct {
	name string
	pkg  string
	// module is the module whose version is the component's version.
	module string
}

// basicComponents are the components that an API server and its client need. The archives of envtest contain the same.
var basicComponents = []component{
	{name: "etcd", pkg: "./etcd", module: "go.etcd.io/etcd/server/v3"},
	apiServer,
	{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl", module: "k8s.io/kubernetes"},
}

// apiServer is the component in which the clusters of make test-compat differ.
var apiServer = component{name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", module: "k8s.io/kubernetes"}

// controllerComponents are for clusters in which pods are created, scheduled, and deleted.
var controllerComponents = []component{
	{name: "kube-controller-manager", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager", module: "k8s.io/kubernetes"},
	{name: "kube-scheduler", pkg: "k8s.io/kubernetes/cmd/kube-scheduler", module: "k8s.io/kubernetes"},
}

// nodeComponents are only needed for the end-to-end tests.
var nodeComponents = []component{
	{name: "kubelet", pkg: "k8s.io/kubernetes/cmd/kubelet", module: "k8s.io/kubernetes"},
	{name: "kube-proxy", pkg: "k8s.io/kubernetes/cmd/kube-proxy", module: "k8s.io/kubernetes"},
}

func main() {
	out := flag.String("out", "../../bin", "directory that receives the binaries")
	demo := flag.Bool("demo", false, "provide etcd, kube-apiserver and kubectl alone")
	nodes := flag.Bool("nodes", false, "build what a node runs, too")
	apiServerAlone := flag.Bool("apiserver", false, "build kube-apiserver alone")
	download := prebuilt{tool: "../envtest", out: os.Stdout}
	flag.StringVar(&download.dir, "prebuilt", "", "directory for downloaded etcd, kube-apiserver and kubectl; none are downloaded if empty")
	flag.StringVar(&download.index, "index", defaultIndex, "URL of the index of what can be downloaded, in the form of setup-envtest")
	flag.Parse()
	basic, rest := basicComponents, controllerComponents
	switch {
	case *apiServerAlone:
		basic, rest = []component{apiServer}, nil
	case *demo:
		rest = nil
	case *nodes:
		rest = slices.Concat(rest, nodeComponents)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out, download, basic, rest); err != nil {
		fmt.Fprintf(os.Stderr, "Error: building the control plane: %v\n", err)
		os.Exit(1)
	}
}

// run provides the basic components and builds the rest. If download has a directory, it tries to download the basic
// ones.
func run(ctx context.Context, out string, download prebuilt, basic, rest []component) error {
	if _, err := os.Stat("components.go"); err != nil {
		return errors.New("components.go is not here: run this in hack/controlplane or in a directory of hack/controlplane/compat; " +
			"`make controlplane` and `make test-compat` do")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("making the output directory: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(out, ".controlplane.lock"))
	if err != nil {
		return err
	}
	defer unlock()

	started := time.Now()
	components := slices.Concat(basic, rest)
	if download.dir != "" {
		downloaded, err := downloadUnlessBuilt(ctx, out, &download)
		if err != nil {
			return err
		}
		if downloaded {
			components = rest
			if err := linkKubectl(out, download.dir); err != nil {
				return err
			}
		}
	}
	for i, c := range components {
		if err := build(ctx, c, out, fmt.Sprintf("[%d/%d]", i+1, len(components))); err != nil {
			return err
		}
	}
	fmt.Printf("Control plane ready in %s (%s)\n", out, elapsed(started))
	return nil
}

// downloadUnlessBuilt reports whether the basic components are in the download's directory. It does not download them
// if they are already built.
func downloadUnlessBuilt(ctx context.Context, out string, download *prebuilt) (bool, error) {
	dir, err := filepath.Abs(download.dir)
	if err != nil {
		return false, fmt.Errorf("resolving %s: %w", download.dir, err)
	}
	download.dir = dir
	version, err := moduleVersion(ctx, "k8s.io/kubernetes")
	if err != nil {
		return false, err
	}
	if download.complete(version) {
		return download.provide(ctx, version), nil
	}
	built := true
	for _, c := range basicComponents {
		want, err := wanted(ctx, c)
		if err != nil {
			return false, err
		}
		built = built && upToDate(c, out, want)
	}
	if built {
		// Downloaded binaries of another version would be used instead of the built ones.
		if err := os.RemoveAll(download.dir); err != nil {
			return false, fmt.Errorf("removing downloaded binaries of another version: %w", err)
		}
		return false, nil
	}
	return download.provide(ctx, version), ctx.Err()
}

// linkKubectl links the downloaded kubectl in out, if there is none, for users who have out in their PATH. A build
// replaces the link.
func linkKubectl(out, downloaded string) error {
	link := filepath.Join(out, "kubectl")
	if _, err := os.Stat(link); err == nil {
		return nil
	}
	// The link may point to a file that was removed.
	if err := os.RemoveAll(link); err != nil {
		return fmt.Errorf("replacing a link to kubectl: %w", err)
	}
	if err := os.Symlink(filepath.Join(downloaded, "kubectl"), link); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	return nil
}

// lock waits for other builds to finish, because two builds would compile the same packages in parallel. It returns a
// function that releases the lock.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the build lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Printf("Another build of the control plane is running; waiting for it (lock %s)\n", path)
		locked := make(chan error, 1)
		go func() { locked <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }()
		select {
		case err = <-locked:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func build(ctx context.Context, c component, out, label string) error {
	version, err := moduleVersion(ctx, c.module)
	if err != nil {
		return err
	}
	label += " " + c.name + " " + version
	want, err := wanted(ctx, c)
	if err != nil {
		return err
	}
	if upToDate(c, out, want) {
		fmt.Println(label, "is up to date")
		return nil
	}
	ldflags, err := stamps(ctx)
	if err != nil {
		return err
	}
	target := filepath.Join(out, c.name)

	fmt.Println(label, "building; a first build takes minutes, later ones come from Go's cache")
	started := time.Now()
	// Build into the same directory and rename, because a rename is atomic only within a file system, and because
	// writing to a running binary fails.
	tmp := filepath.Join(out, fmt.Sprintf(".%s.%d.tmp", c.name, os.Getpid()))
	defer os.Remove(tmp)
	if err := compile(ctx, c.pkg, ldflags, tmp, label, started); err != nil {
		return err
	}
	if err := os.Rename(tmp, target); err != nil {
		return fmt.Errorf("putting %s into place: %w", c.name, err)
	}
	if err := os.WriteFile(stampOf(c, out), []byte(want), 0o644); err != nil {
		return fmt.Errorf("recording what %s was built from: %w", c.name, err)
	}
	fmt.Printf("%s done (%s)\n", label, elapsed(started))
	return nil
}

// stampOf returns the path of the file that records the inputs from which a component was built.
func stampOf(c component, out string) string { return filepath.Join(out, "."+c.name+".stamp") }

// upToDate reports whether the component in out was built from the wanted inputs.
func upToDate(c component, out, want string) bool {
	got, err := os.ReadFile(stampOf(c, out))
	if err != nil || string(got) != want {
		return false
	}
	_, err = os.Stat(filepath.Join(out, c.name))
	return err == nil
}

// wanted returns an identifier of all inputs that determine the component's binary.
func wanted(ctx context.Context, c component) (string, error) {
	ldflags, err := stamps(ctx)
	if err != nil {
		return "", err
	}
	return inputs(ctx, c, ldflags)
}

func compile(ctx context.Context, pkg, ldflags, target, label string, started time.Time) error {
	// All builds of Kubernetes here must have equal flags: those of make, which sets GOFLAGS. With other flags they would not
	// share the cache, and neither with other versions of modules. So go.mod has the versions of the operator's, of which most packages are
	// compiled already. Go keeps what go run has linked in the cache, too, so that a fresh clone does not link it again. What go run runs here
	// is cp PROGRAM TARGET.
	cmd := exec.CommandContext(ctx, "go", "run", "-v", "-ldflags", ldflags, "-exec", "cp", pkg, target)
	cmd.Env = buildEnv()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("connecting to go run: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting go run (is Go in PATH?): %w", err)
	}

	var compiled atomic.Int64
	done := keepTelling(func() {
		fmt.Printf("%s … %d packages compiled so far, %s elapsed\n", label, compiled.Load(), elapsed(started))
	})
	messages := readBuildOutput(stderr, &compiled)
	err = cmd.Wait()
	done()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted; what was compiled so far stays in Go's cache, so the next build is shorter")
	case err != nil:
		return fmt.Errorf("compiling %s: %w\n%s\n%s", pkg, err, messages, advice)
	}
	return nil
}

// keepTelling calls tell at every heartbeat until the returned function is called.
func keepTelling(tell func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				tell()
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// readBuildOutput reads the output of go run -v. It counts the import paths, one for each compiled package, and
// prints the downloads. It returns all other lines, which are the compiler's messages.
func readBuildOutput(r io.Reader, compiled *atomic.Int64) string {
	var messages bytes.Buffer
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		switch line := scanner.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
			fmt.Println(line)
		case strings.ContainsAny(line, " \t:"):
			fmt.Fprintln(&messages, line)
		default:
			compiled.Add(1)
		}
	}
	// Read the rest even if the scanner failed: otherwise go build would block on a full pipe.
	_, _ = io.Copy(io.Discard, r)
	return messages.String()
}

// stamps returns the linker flags that set the version of the binaries. A server without them reports v0.0.0, which
// misleads clients and webhooks that check the version.
func stamps(ctx context.Context) (string, error) {
	version, err := moduleVersion(ctx, "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("k8s.io/kubernetes has the version %q, which is not vMAJOR.MINOR.PATCH: require a release in "+
			"hack/controlplane/go.mod", version)
	}
	const x = "k8s.io/component-base/version"
	return fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", x, version, parts[0], parts[1]), nil
}

func moduleVersion(ctx context.Context, module string) (string, error) {
	v, err := goOutput(ctx, "list", "-m", "-f", "{{.Version}}", module)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s from go.mod: %w\n%s", module, err, advice)
	}
	return v, nil
}

// inputs returns an identifier of all inputs that determine the binary.
func inputs(ctx context.Context, c component, ldflags string) (string, error) {
	toolchain, err := goOutput(ctx, "env", "GOVERSION", "GOARCH", "GOOS")
	if err != nil {
		return "", fmt.Errorf("asking Go for its version: %w", err)
	}
	h := sha256.New()
	fmt.Fprintln(h, c.pkg, ldflags, toolchain, runtime.Compiler)
	for _, file := range []string{"go.mod", "go.sum", etcdSource} {
		text, err := os.ReadFile(file)
		// The modules in compat do not contain etcd.
		if errors.Is(err, fs.ErrNotExist) && file == etcdSource {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("reading what the control plane is built from: %w", err)
		}
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)) + "\n", nil
}

func goOutput(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = buildEnv()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// buildEnv returns the environment of the go command. Compilers that hardly collect garbage take a fifth less processor time.
func buildEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOGC=10000", "GOMEMLIMIT=1500MiB")
}

func elapsed(since time.Time) time.Duration { return time.Since(since).Round(time.Second) }
