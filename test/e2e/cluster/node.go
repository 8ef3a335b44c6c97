//go:build linux

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

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

// specVariable is the path of the nodeSpec, for the process that becomes a node.
const specVariable = "BERTH_E2E_NODE"

// node is a machine: a process that is the first one in namespaces of its own, and all that descends from it.
type node struct {
	name string
	dir  string
	log  string
	cmd  *exec.Cmd
	// done is closed when the node is gone.
	done chan struct{}
}

// nodeSpec is what a node's first process must know.
type nodeSpec struct {
	Name string
	// Dir is the node's own, in memory; Logs is on disk.
	Dir, Logs string
	// Address is of the node, with the prefix of the network.
	Address    string
	Components []component
}

// component is a program that runs on a node for as long as the node does.
type component struct {
	Name string
	Args []string
	// Socket, if it has one, is where it listens; what comes after it starts when it does.
	Socket string
}

func (n *node) socket() string { return filepath.Join(n.dir, "containerd.sock") }

// startNode starts node number i. It will be Ready some time later.
func (c *Cluster) startNode(i int, pauseImage string) (*node, error) {
	name := "node-" + strconv.Itoa(i)
	n := &node{name: name, dir: filepath.Join(c.sandbox.state(), name), done: make(chan struct{})}
	logs := filepath.Join(c.sandbox.Logs(), name)
	n.log = filepath.Join(logs, "node.log")
	for _, dir := range []string{logs, n.dir} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("making the node's directories: %w", err)
		}
	}
	address := "172.18.1." + strconv.Itoa(i)
	pods := "10.244." + strconv.Itoa(i) + ".0/24"
	spec := nodeSpec{Name: name, Dir: n.dir, Logs: logs, Address: address + "/16"}
	var err error
	if spec.Components, err = c.configure(n, address, pods, logs, pauseImage); err != nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("writing down the node: %w", err)
	}
	file := filepath.Join(n.dir, "node.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("writing down the node: %w", err)
	}
	if err := makeCgroup(c.cgroup(n)); err != nil {
		return nil, err
	}
	if err := n.start(file, "node"+strconv.Itoa(i)); err != nil {
		return nil, err
	}
	if err := ip("route add " + pods + " via " + address); err != nil {
		return nil, errors.Join(err, n.kill())
	}
	return n, nil
}

func (c *Cluster) cgroup(n *node) string { return c.sandbox.cgroup() + "/" + n.name }

// start starts the node's first process, and gives it a wire to the bridge.
func (n *node) start(spec, wire string) error {
	log, err := os.Create(n.log)
	if err != nil {
		return fmt.Errorf("making the node's log: %w", err)
	}
	defer log.Close()
	n.cmd = exec.Command("/proc/self/exe")
	n.cmd.Env = append(os.Environ(), roleVariable+"="+roleNode, specVariable+"="+spec)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	// It waits for the end of its input before it looks for the wire.
	wired, err := n.cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("connecting to the node: %w", err)
	}
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}
	go func() {
		defer close(n.done)
		_ = n.cmd.Wait()
	}()
	for _, line := range []string{
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", wire, n.cmd.Process.Pid),
		fmt.Sprintf("link set %s master %s up", wire, bridge),
	} {
		if err := ip(line); err != nil {
			return errors.Join(err, n.kill())
		}
	}
	return wired.Close()
}

// ended returns an error if the node is gone.
func (n *node) ended() error {
	select {
	case <-n.done:
		return fmt.Errorf("%s has ended: %s", n.name, process.Tail(n.log))
	default:
		return nil
	}
}

// kill ends the node's first process, and the kernel with it all others.
func (n *node) kill() error {
	err := n.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-n.done
	return err
}

// configure writes the configuration of what runs on the node.
func (c *Cluster) configure(n *node, address, pods, logs, pauseImage string) ([]component, error) {
	plugins, err := pluginDir()
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for name, find := range map[string]func(string) (string, error){
		"containerd": program, "runc": program, "kubelet": controlplane.Binary, "kube-proxy": controlplane.Binary,
	} {
		if paths[name], err = find(name); err != nil {
			return nil, err
		}
	}
	kubelet := filepath.Join(n.dir, "kubelet.kubeconfig")
	if err := c.writeKubeconfig(kubelet, "system:node:"+n.name, "system:nodes"); err != nil {
		return nil, err
	}
	values := map[string]string{
		"Dir": n.dir, "Logs": logs, "Socket": n.socket(), "Cgroup": "/" + c.cgroup(n), "Pods": pods,
		"Plugins": plugins, "Runc": paths["runc"], "PauseImage": pauseImage,
	}
	if err := os.Mkdir(filepath.Join(n.dir, "cni"), 0o755); err != nil {
		return nil, fmt.Errorf("making the network's directory: %w", err)
	}
	for file, text := range map[string]string{"kubelet.yaml": kubeletConfig, "containerd.toml": containerdConfig,
		"cni/10-pods.conflist": podNetwork} {
		if err := render(filepath.Join(n.dir, file), text, values); err != nil {
			return nil, err
		}
	}
	proxy, err := c.proxyConfig(n.dir, n.name)
	if err != nil {
		return nil, err
	}
	return []component{
		{Name: "containerd", Args: []string{paths["containerd"], "--config", filepath.Join(n.dir, "containerd.toml")}, Socket: n.socket()},
		{Name: "kubelet", Args: []string{
			paths["kubelet"], "--config=" + filepath.Join(n.dir, "kubelet.yaml"), "--kubeconfig=" + kubelet,
			"--hostname-override=" + n.name, "--node-ip=" + address, "--root-dir=" + filepath.Join(n.dir, "kubelet"),
		}},
		{Name: "kube-proxy", Args: []string{paths["kube-proxy"], "--config=" + proxy}},
	}, nil
}

// proxyConfig writes the configuration of kube-proxy.
func (c *Cluster) proxyConfig(dir, node string) (string, error) {
	kubeconfig := filepath.Join(dir, "kube-proxy.kubeconfig")
	if err := c.writeKubeconfig(kubeconfig, "system:kube-proxy"); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "kube-proxy.yaml")
	return file, render(file, proxyConfig, map[string]string{"Kubeconfig": kubeconfig, "Node": node, "Pods": podCIDR})
}

func render(file, text string, values map[string]string) error {
	t, err := template.New(filepath.Base(file)).Option("missingkey=error").Parse(text)
	if err != nil {
		return fmt.Errorf("reading the template of %s: %w", file, err)
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("writing a configuration: %w", err)
	}
	if err := errors.Join(t.Execute(out, values), out.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// runNode is the node's first process. It returns when one of the node's components has ended; then all others end, too.
func runNode() error {
	text, err := os.ReadFile(os.Getenv(specVariable))
	if err != nil {
		return fmt.Errorf("reading what the node is: %w", err)
	}
	var spec nodeSpec
	if err := json.Unmarshal(text, &spec); err != nil {
		return fmt.Errorf("reading what the node is: %w", err)
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("waiting for the wire: %w", err)
	}
	if err := spec.prepare(); err != nil {
		return err
	}
	pids := map[int]string{}
	for _, component := range spec.Components {
		log, err := os.Create(filepath.Join(spec.Logs, component.Name+".log"))
		if err != nil {
			return fmt.Errorf("making a log: %w", err)
		}
		// The first process's own loop reaps it.
		p, err := os.StartProcess(component.Args[0], component.Args, &os.ProcAttr{
			Env: environment(), Files: []*os.File{nil, log, log}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			return fmt.Errorf("starting %s: %w", component.Name, err)
		}
		pids[p.Pid] = component.Name
		log.Close()
		if err := awaitSocket(component.Socket); err != nil {
			return fmt.Errorf("waiting for %s: %w", component.Name, err)
		}
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for the node's processes: %w", err)
		case pids[pid] != "":
			return fmt.Errorf("%s has ended (exit code %d)", pids[pid], status.ExitStatus())
		}
	}
}

// environment is that of the components, which run programs by their names, and are told nothing of proxies.
func environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
}

// prepare makes of fresh namespaces a machine.
func (s *nodeSpec) prepare() error {
	if err := privateMounts(); err != nil {
		return err
	}
	// What runtimes keep outside of the directories that they are given. The machine's /var/lib stays to be seen: the
	// binaries may be there.
	if err := mountTmpfs("/run"); err != nil {
		return err
	}
	upper, work := filepath.Join(s.Dir, "var-lib"), filepath.Join(s.Dir, "var-lib-work")
	if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
		return fmt.Errorf("making /var/lib: %w", err)
	}
	if err := syscall.Mount("overlay", "/var/lib", "overlay", 0, "lowerdir=/var/lib,upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mounting /var/lib: %w", err)
	}
	if err := syscall.Mount(s.Logs, "/var/log", "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting the logs: %w", err)
	}
	// Mounts of pods have to reach containers that run already.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing the mounts: %w", err)
	}
	if err := s.imitateSettings(); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("naming the node: %w", err)
	}
	for _, line := range []string{
		"link set lo up",
		"addr add " + s.Address + " dev eth0",
		"link set eth0 up",
		"route add default via " + gateway,
	} {
		if err := ip(line); err != nil {
			return fmt.Errorf("joining the network: %w", err)
		}
	}
	return forward()
}

// imitateSettings shows the kubelet settings of the kernel as it insists on having them, since they are the machine's and
// not the node's.
func (s *nodeSpec) imitateSettings() error {
	for name, value := range map[string]string{"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10",
		"kernel/panic_on_oops": "1"} {
		file := filepath.Join(s.Dir, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return fmt.Errorf("imitating a setting: %w", err)
		}
		if err := syscall.Mount(file, filepath.Join("/proc/sys", name), "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("imitating a setting: %w", err)
		}
	}
	return nil
}

// processes returns the processes that the filter takes; it gets an id as /proc has it.
func processes(filter func(pid string) bool) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var out []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && filter(entry.Name()) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// awaitSocket waits until a process listens on a socket. A kubelet that can't connect to it exits at once.
func awaitSocket(socket string) error {
	if socket == "" {
		return nil
	}
	return wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
}
