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
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

// The network exists in the sandbox alone, so its addresses may be any.
const (
	bridge = "br0"
	// gateway is this side of the bridge, where the API server listens.
	gateway     = "172.18.0.1"
	apiServer   = gateway + ":6443"
	podCIDR     = "10.244.0.0/16"
	nodeTimeout = 3 * time.Minute
	interval    = 100 * time.Millisecond
)

// Options says what to start.
type Options struct {
	// Nodes is their number, at most 200.
	Nodes int
	// PauseImage is the name of the image that holds pods' namespaces; one of Images is it.
	PauseImage string
	// Images are archives that every node has from the start.
	Images []string
}

// Cluster is a running cluster. It is safe for concurrent use, but for RestartAPIServer, AddNode, and RemoveNode.
type Cluster struct {
	sandbox    Sandbox
	pauseImage string
	plane      *controlplane.ControlPlane
	proxy      *process.Group
	nodes      []*node
	// kubeconfig is an administrator's.
	kubeconfig string
}

// Start starts a cluster in the sandbox, and returns when all nodes are Ready. After an error nothing is left running.
func Start(ctx context.Context, s Sandbox, o Options) (_ *Cluster, err error) {
	c := &Cluster{sandbox: s, pauseImage: o.PauseImage, kubeconfig: filepath.Join(s.Dir, "kubeconfig")}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if err := startNetwork(); err != nil {
		return nil, err
	}
	plane := filepath.Join(s.state(), "controlplane")
	if err := os.Mkdir(plane, 0o700); err != nil {
		return nil, fmt.Errorf("making the control plane's directory: %w", err)
	}
	if c.plane, err = controlplane.Start(ctx, controlplane.Options{Dir: plane, ControllerManager: true, Scheduler: true,
		Address: apiServer}); err != nil {
		return nil, err
	}
	if err := c.writeKubeconfig(c.kubeconfig, controlplane.AdminUser, "system:masters"); err != nil {
		return nil, err
	}
	for range o.Nodes {
		if err := c.addNode(); err != nil {
			return nil, err
		}
	}
	if err := c.startProxy(); err != nil {
		return nil, err
	}
	for _, archive := range o.Images {
		if err := c.LoadImage(ctx, archive); err != nil {
			return nil, err
		}
	}
	if err := c.waitReady(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) addNode() error {
	i := len(c.nodes) + 1
	n, err := c.startNode(i, c.pauseImage)
	if err != nil {
		return fmt.Errorf("starting node %d: %w", i, err)
	}
	c.nodes = append(c.nodes, n)
	return nil
}

// AddNode starts one more node, which has no images, and returns its name when it is Ready.
func (c *Cluster) AddNode(ctx context.Context) (string, error) {
	if err := c.addNode(); err != nil {
		return "", err
	}
	return c.nodes[len(c.nodes)-1].name, c.waitReady(ctx)
}

// RemoveNode kills the node that was added last, and deletes its Node. It must not be called twice for one AddNode.
func (c *Cluster) RemoveNode(ctx context.Context) error {
	last := c.nodes[len(c.nodes)-1]
	c.nodes = c.nodes[:len(c.nodes)-1]
	client, err := kubernetes.NewForConfig(c.plane.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return errors.Join(last.kill(), client.CoreV1().Nodes().Delete(ctx, last.name, metav1.DeleteOptions{}))
}

// RestartAPIServer kills the API server and starts it again, and returns when it is healthy.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	if err := c.plane.KillAPIServer(ctx); err != nil {
		return err
	}
	return c.plane.StartAPIServer()
}

func startNetwork() error {
	for _, line := range []string{
		"link add " + bridge + " type bridge",
		"addr add " + gateway + "/16 dev " + bridge,
		"link set " + bridge + " up",
		// A connection to a Service gets its source address before kube-proxy gives it a destination.
		"route add default dev " + bridge,
	} {
		if err := ip(line); err != nil {
			return fmt.Errorf("making the network: %w", err)
		}
	}
	return forward()
}

// forward lets this network namespace pass on packets.
func forward() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("making the network pass on packets: %w", err)
	}
	return nil
}

// startProxy starts kube-proxy on this side of the bridge, where the API server calls Services. It wants to be on some
// node: which one matters for node ports alone.
func (c *Cluster) startProxy() error {
	dir := filepath.Join(c.sandbox.state(), "proxy")
	group, err := process.NewGroup(dir, false)
	if err != nil {
		return err
	}
	c.proxy = group
	config, err := c.proxyConfig(dir, c.nodes[0].name)
	if err != nil {
		return err
	}
	path, err := controlplane.Binary("kube-proxy")
	if err != nil {
		return err
	}
	_, err = group.Start("kube-proxy", path, "--config="+config)
	return err
}

func (c *Cluster) writeKubeconfig(file, user string, groups ...string) error {
	text, err := c.plane.Kubeconfig(user, groups...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return nil
}

func (c *Cluster) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.plane.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, interval, nodeTimeout, true, func(ctx context.Context) (bool, error) {
		for _, n := range c.nodes {
			if err := n.ended(); err != nil {
				return false, err
			}
			if last = ready(ctx, client, n.name); last != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the nodes: %w", errors.Join(err, last, errors.New(c.Tails())))
	}
	return nil
}

func ready(ctx context.Context, client kubernetes.Interface, name string) error {
	n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return nil
		}
		return fmt.Errorf("%s is not ready: %s", name, condition.Message)
	}
	return fmt.Errorf("%s has not said yet whether it is ready", name)
}

// Config returns the configuration of a client that may do everything, without a limit on its rate.
func (c *Cluster) Config() *rest.Config {
	config := c.plane.Config()
	config.QPS = -1
	return config
}

// Kubeconfig returns the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// KubectlPath returns the path of a kubectl.
func (c *Cluster) KubectlPath() string { return c.plane.KubectlPath() }

// Nodes returns the nodes' names.
func (c *Cluster) Nodes() []string {
	names := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		names[i] = n.name
	}
	return names
}

// LoadImage puts the images of an archive onto every node, where pods find them under the names that the archive gives
// and these further ones.
func (c *Cluster) LoadImage(ctx context.Context, archive string, names ...string) error {
	path, err := program("ctr")
	if err != nil {
		return err
	}
	for _, n := range c.nodes {
		ctr := func(args ...string) (string, error) {
			args = append([]string{"--address", n.socket(), "--namespace", "k8s.io"}, args...)
			out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
			return string(bytes.TrimSpace(out)), err
		}
		err := wait.PollUntilContextTimeout(ctx, interval, nodeTimeout, true, func(context.Context) (bool, error) {
			_, err := ctr("version")
			return err == nil, n.ended()
		})
		if err != nil {
			return fmt.Errorf("waiting for containerd on %s: %w", n.name, err)
		}
		out, err := ctr("images", "import", archive)
		if err != nil {
			return fmt.Errorf("putting %s onto %s: %w: %s", archive, n.name, err, out)
		}
		if len(names) == 0 {
			continue
		}
		// "unpacking NAME (DIGEST)...done"
		loaded := strings.Fields(out)
		if len(loaded) < 2 {
			return fmt.Errorf("putting %s onto %s: which image it holds is not said: %s", archive, n.name, out)
		}
		if out, err := ctr(append([]string{"images", "tag", "--force", loaded[1]}, names...)...); err != nil {
			return fmt.Errorf("naming %s on %s: %w: %s", loaded[1], n.name, err, out)
		}
	}
	return nil
}

// Processes returns the ids, in this process's namespace, of those that run in a pod and whose program has that path.
func (c *Cluster) Processes(podUID, executable string) ([]int, error) {
	// The cgroup of a pod has its uid in its name.
	return processes(func(pid string) bool {
		group, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
		if err != nil || !strings.Contains(string(group), podUID) {
			return false
		}
		line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		first, _, _ := bytes.Cut(line, []byte{0})
		return err == nil && string(first) == executable
	})
}

// Tails returns the ends of the logs of all components.
func (c *Cluster) Tails() string {
	var text strings.Builder
	for _, pattern := range []string{
		filepath.Join(c.sandbox.Logs(), "*", "*.log"),
		filepath.Join(c.sandbox.state(), "*", "logs", "*.log"),
	} {
		files, _ := filepath.Glob(pattern) // The pattern is well-formed.
		for _, file := range files {
			fmt.Fprintf(&text, "--- the end of %s:\n%s\n", file, process.Tail(file))
		}
	}
	return text.String()
}

// KeepLogs copies what is logged in memory to the sandbox's logs.
func (c *Cluster) KeepLogs() error {
	files, _ := filepath.Glob(filepath.Join(c.sandbox.state(), "*", "logs", "*.log")) // The pattern is well-formed.
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("keeping a log: %w", err)
		}
		if err := os.WriteFile(filepath.Join(c.sandbox.Logs(), filepath.Base(file)), text, 0o644); err != nil {
			return fmt.Errorf("keeping a log: %w", err)
		}
	}
	return nil
}

// Stop kills the nodes and stops the control plane. It must be called once.
func (c *Cluster) Stop() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.kill())
	}
	if c.proxy != nil {
		errs = append(errs, c.proxy.Close())
	}
	if c.plane != nil {
		errs = append(errs, c.plane.Stop())
	}
	return errors.Join(errs...)
}
