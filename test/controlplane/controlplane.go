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

package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/berth-dev/berth/test/controlplane/process"
)

const (
	// AdminUser is the user of Config; it is in the group system:masters.
	AdminUser = "berth-admin"

	adminGroup = "system:masters"

	// startTimeout is for one component on a slow, loaded machine; envtest's 20 seconds are not.
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second

	pollInterval = 100 * time.Millisecond
)

// Options says what to start.
type Options struct {
	// Dir receives state and logs. What an earlier control plane left there is removed: nothing is kept from one start
	// to the next. A temporary directory, removed by Stop, if empty.
	Dir string
	// ControllerManager starts kube-controller-manager, and with it the ServiceAccount admission plugin, which refuses
	// every pod if no controller creates the ServiceAccounts.
	ControllerManager bool
	// Scheduler starts kube-scheduler.
	Scheduler bool
	// SchedulerConfiguration is that of kube-scheduler, but for its kubeconfig. Kubernetes' defaults if nil.
	SchedulerConfiguration *schedulerv1.KubeSchedulerConfiguration
	// APIServerFlags are further flags of kube-apiserver and their values, by name without dashes.
	APIServerFlags map[string]string
	// EtcdFlags are further flags of etcd and their values, by name without dashes.
	EtcdFlags map[string]string
	// Address is where the API server listens, as in 192.0.2.1:6443, for a control plane that nodes join: their pods
	// reach it through the Service kubernetes. A free port of the loopback device, which no node reaches, if empty.
	Address string
}

// ServiceCIDR is where Services have their addresses.
const ServiceCIDR = "10.0.0.0/24"

// serviceAddress is that of the Service kubernetes.
const serviceAddress = "10.0.0.1"

// ControlPlane is a running control plane. It is safe for concurrent use, but for
// what stops or starts parts of it.
type ControlPlane struct {
	group   *process.Group
	plane   *envtest.ControlPlane
	admin   *rest.Config
	kubectl string
	// extra are the processes that envtest does not start, in the order of their start.
	extra []*process.Process

	stopOnce sync.Once
	stopErr  error
}

// Start starts a control plane with certificates of its own, on free loopback ports unless an address is given, and
// returns when the API server is ready, the namespace default exists and, with ControllerManager, ServiceAccounts are made. Ending ctx
// aborts the start and has no effect later. After an error nothing is left running; the error quotes the log of what failed. The processes
// die with the caller's process, however that ends.
func Start(ctx context.Context, o Options) (_ *ControlPlane, err error) {
	binaries := map[string]string{}
	for name, needed := range map[string]bool{
		"etcd": true, "kube-apiserver": true, "kubectl": true,
		"kube-controller-manager": o.ControllerManager, "kube-scheduler": o.Scheduler,
	} {
		if !needed {
			continue
		}
		if binaries[name], err = Binary(name); err != nil {
			return nil, err
		}
	}

	dir, temporary := o.Dir, o.Dir == ""
	if temporary {
		if dir, err = os.MkdirTemp("", "berth-controlplane-"); err != nil {
			return nil, fmt.Errorf("making a state directory: %w", err)
		}
	}
	group, err := process.NewGroup(dir, temporary)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{group: group, kubectl: binaries["kubectl"]}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()

	if err := c.startPlane(ctx, o, binaries); err != nil {
		return nil, err
	}
	if c.admin, err = c.User(AdminUser, adminGroup); err != nil {
		return nil, err
	}
	if o.ControllerManager {
		if err := c.startControllerManager(binaries["kube-controller-manager"]); err != nil {
			return nil, err
		}
	}
	if o.Scheduler {
		if err := c.startScheduler(binaries["kube-scheduler"], o.SchedulerConfiguration); err != nil {
			return nil, err
		}
	}
	if err := c.waitUsable(ctx, o); err != nil {
		return nil, err
	}
	return c, nil
}

// startPlane starts etcd and kube-apiserver.
func (c *ControlPlane) startPlane(ctx context.Context, o Options, binaries map[string]string) error {
	dir := c.group.Dir()
	// envtest makes no certificates where it finds some, and then does not know their authority.
	for _, state := range []string{"etcd", "certs", "logs"} {
		if err := os.RemoveAll(filepath.Join(dir, state)); err != nil {
			return fmt.Errorf("removing earlier state: %w", err)
		}
		if err := os.Mkdir(filepath.Join(dir, state), 0o700); err != nil {
			return fmt.Errorf("making a state directory: %w", err)
		}
	}
	etcdLog, err := c.group.OpenLog("etcd")
	if err != nil {
		return err
	}
	defer etcdLog.Close()
	serverLog, err := c.group.OpenLog("kube-apiserver")
	if err != nil {
		return err
	}
	defer serverLog.Close()
	etcdPath, err := c.group.Wrap("etcd", binaries["etcd"])
	if err != nil {
		return err
	}
	serverPath, err := c.group.Wrap("kube-apiserver", binaries["kube-apiserver"])
	if err != nil {
		return err
	}

	server := &envtest.APIServer{
		Path: serverPath, CertDir: c.certDir(),
		StartTimeout: startTimeout, StopTimeout: stopTimeout, Out: serverLog, Err: serverLog,
	}
	server.Configure().Set("service-cluster-ip-range", ServiceCIDR)
	if o.Address == "" {
		// Without these the API server looks for an address that is not loopback, which a machine without network
		// lacks, to publish it in the Service kubernetes, which no test calls.
		server.Configure().Set("advertise-address", "127.0.0.1").Set("endpoint-reconciler-type", "none")
	} else if err := c.serveNodes(server, o.Address); err != nil {
		return err
	}
	if o.ControllerManager {
		server.Configure().Disable("disable-admission-plugins")
	}
	for name, value := range o.APIServerFlags {
		server.Configure().Set(name, value)
	}
	store := &envtest.Etcd{
		Path: etcdPath, DataDir: filepath.Join(dir, "etcd"),
		StartTimeout: startTimeout, StopTimeout: stopTimeout, Out: etcdLog, Err: etcdLog,
	}
	for name, value := range o.EtcdFlags {
		store.Configure().Set(name, value)
	}
	c.plane = &envtest.ControlPlane{Etcd: store, APIServer: server, KubectlPath: c.kubectl}
	started := make(chan error, 1)
	go func() { started <- c.plane.Start() }()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-started:
			switch {
			case ctx.Err() != nil:
				return fmt.Errorf("starting the control plane: %w", context.Cause(ctx))
			case err != nil:
				return fmt.Errorf("starting the control plane: %w\n%s", err, c.tails("etcd", "kube-apiserver"))
			}
			return nil
		case <-ticker.C:
			// envtest's start can't be cancelled, but it ends when its processes do.
			if ctx.Err() != nil {
				c.group.Kill()
			}
		}
	}
}

// serveNodes has the API server listen at an address that nodes and pods reach.
func (c *ControlPlane) serveNodes(server *envtest.APIServer, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("reading the address of the API server: %w", err)
	}
	server.ListenAddr = envtest.ListenAddr{Address: host, Port: port}
	server.Configure().Set("advertise-address", host).Set("kubelet-preferred-address-types", "InternalIP").
		Set("authorization-mode", "Node,RBAC").Set("enable-admission-plugins", "NodeRestriction")
	// envtest's certificate lacks the address by which pods know the API server. Where it finds one it makes none, nor
	// the key that signs the tokens of ServiceAccounts.
	for name, file := range map[string]string{host: "apiserver", "service-accounts": "sa-signer"} {
		bundle, key, err := cert.GenerateSelfSignedCertKey(name, []net.IP{net.ParseIP(serviceAddress)},
			[]string{"localhost", "kubernetes.default.svc"})
		if err != nil {
			return fmt.Errorf("making the certificate of %s: %w", name, err)
		}
		for suffix, text := range map[string][]byte{".crt": bundle, ".key": key} {
			if err := os.WriteFile(filepath.Join(c.certDir(), file+suffix), text, 0o600); err != nil {
				return fmt.Errorf("writing the certificate of %s: %w", name, err)
			}
		}
		if file == "apiserver" {
			// The last one of the bundle is the authority's; that the others are trusted too does no harm.
			server.CA = bundle
		}
	}
	return nil
}

func (c *ControlPlane) startControllerManager(path string) error {
	rootCA := filepath.Join(c.certDir(), "root-ca.crt")
	if err := os.WriteFile(rootCA, c.plane.APIServer.CA, 0o600); err != nil {
		return fmt.Errorf("writing the API server's authority for kube-controller-manager: %w", err)
	}
	return c.startExtra("kube-controller-manager", path,
		"--root-ca-file="+rootCA,
		// envtest's name for the key that signs the tokens of ServiceAccounts.
		"--service-account-private-key-file="+filepath.Join(c.certDir(), "sa-signer.key"),
		"--use-service-account-credentials=true",
	)
}

func (c *ControlPlane) startScheduler(path string, configuration *schedulerv1.KubeSchedulerConfiguration) error {
	const name = "kube-scheduler"
	if configuration == nil {
		return c.startExtra(name, path)
	}
	configuration = configuration.DeepCopy()
	configuration.SetGroupVersionKind(schedulerv1.SchemeGroupVersion.WithKind("KubeSchedulerConfiguration"))
	// Of the flags, kube-scheduler heeds those of leader election alone where it has a configuration.
	configuration.ClientConnection.Kubeconfig = c.kubeconfigPath(name)
	text, err := json.Marshal(configuration)
	if err != nil {
		return fmt.Errorf("encoding the configuration of %s: %w", name, err)
	}
	file := filepath.Join(c.certDir(), name+".config")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("writing the configuration of %s: %w", name, err)
	}
	return c.startExtra(name, path, "--config="+file)
}

// startExtra starts a component as the user that the API server's built-in roles expect.
func (c *ControlPlane) startExtra(name, path string, args ...string) error {
	kubeconfig, err := c.Kubeconfig("system:" + name)
	if err != nil {
		return err
	}
	file := c.kubeconfigPath(name)
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
	}
	args = append([]string{"--kubeconfig=" + file, "--leader-elect=false", "--secure-port=0"}, args...)
	p, err := c.group.Start(name, path, args...)
	if err != nil {
		return err
	}
	c.extra = append(c.extra, p)
	return nil
}

// waitUsable waits for what a cluster has a few seconds after its API server is ready.
func (c *ControlPlane) waitUsable(ctx context.Context, o Options) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true, func(ctx context.Context) (bool, error) {
		for _, p := range c.extra {
			select {
			case <-p.Done():
				return false, fmt.Errorf("%s ended early (%w)\n%s", p.Name(), p.Err(), c.tails(p.Name()))
			default:
			}
		}
		if o.ControllerManager {
			_, last = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		} else {
			_, last = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		}
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for the control plane: %w", context.Cause(ctx))
	case wait.Interrupted(err) && apierrors.IsNotFound(last) && o.ControllerManager:
		return fmt.Errorf("waiting for kube-controller-manager to make ServiceAccounts: %w\n%s", err, c.tails("kube-controller-manager"))
	default:
		return fmt.Errorf("waiting for the control plane: %w", errors.Join(err, last))
	}
}

// Config returns the configuration of a client that may do everything: user AdminUser, group system:masters.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// User returns the configuration of a client that authenticates by certificate as this user with these groups
// (system:authenticated comes by itself). It may do what RBAC grants them.
func (c *ControlPlane) User(name string, groups ...string) (*rest.Config, error) {
	user, err := c.addUser(name, groups)
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
}

// Kubeconfig returns a kubeconfig file with which to authenticate as User does.
func (c *ControlPlane) Kubeconfig(name string, groups ...string) ([]byte, error) {
	user, err := c.addUser(name, groups)
	if err != nil {
		return nil, err
	}
	text, err := user.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig for %s: %w", name, err)
	}
	return text, nil
}

func (c *ControlPlane) addUser(name string, groups []string) (*envtest.AuthenticatedUser, error) {
	// No client-side throttling worth the name: it makes tests slow and finds nothing.
	user, err := c.plane.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: 1000, Burst: 2000})
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate for %s: %w", name, err)
	}
	return user, nil
}

// KillAPIServer kills the API server alone, so that its clients can't connect, and returns when it is gone. What it has
// stored stays. It is not asked to end, since it would wait for those who watch.
func (c *ControlPlane) KillAPIServer(ctx context.Context) error {
	return c.kill(ctx, "kube-apiserver")
}

// kill kills a process of the control plane and returns when it is gone.
func (c *ControlPlane) kill(ctx context.Context, name string) error {
	pid, runs := process.Recorded(c.group.Dir())[name]
	if !runs {
		return fmt.Errorf("killing %s: it does not run\n%s", name, c.tails(name))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing %s: %w", name, err)
	}
	return wait.PollUntilContextTimeout(ctx, pollInterval, stopTimeout, true, func(context.Context) (bool, error) {
		// A process that is about to end loses its command line before it closes its sockets.
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), nil
	})
}

// APIServerCPU returns the processor time that the running API server has taken since it started. It needs Linux.
func (c *ControlPlane) APIServerCPU() (time.Duration, error) {
	const name = "kube-apiserver"
	pid, runs := process.Recorded(c.group.Dir())[name]
	if !runs {
		return 0, fmt.Errorf("measuring the API server: it does not run\n%s", c.tails(name))
	}
	return process.CPU(pid)
}

// StartAPIServer starts the API server again after KillAPIServer, where it was and with the users it had, and returns
// when it is healthy.
func (c *ControlPlane) StartAPIServer() error {
	log, err := c.group.OpenLog("kube-apiserver")
	if err != nil {
		return err
	}
	defer log.Close()
	c.plane.APIServer.Out, c.plane.APIServer.Err = log, log
	if err := c.plane.APIServer.Start(); err != nil {
		return fmt.Errorf("starting the API server again: %w\n%s", err, c.tails("kube-apiserver"))
	}
	return nil
}

// SaveStore copies etcd's data to a directory, which must not exist. The control plane is down meanwhile.
func (c *ControlPlane) SaveStore(ctx context.Context, dir string) error {
	return c.withoutStore(ctx, func(data string) error { return os.CopyFS(dir, os.DirFS(data)) })
}

// RestoreStore replaces etcd's data by what SaveStore copied, as the restore of a backup does. The control plane is down
// meanwhile; its clients are not told of anything.
func (c *ControlPlane) RestoreStore(ctx context.Context, dir string) error {
	return c.withoutStore(ctx, func(data string) error {
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		if err := os.CopyFS(data, os.DirFS(dir)); err != nil {
			return err
		}
		return os.Chmod(data, 0o700)
	})
}

// withoutStore stops the API server and etcd, calls do with etcd's data directory, and starts both again.
func (c *ControlPlane) withoutStore(ctx context.Context, do func(data string) error) error {
	if err := errors.Join(c.KillAPIServer(ctx), c.kill(ctx, "etcd")); err != nil {
		return err
	}
	if err := do(c.plane.Etcd.DataDir); err != nil {
		return fmt.Errorf("copying etcd's data: %w", err)
	}
	log, err := c.group.OpenLog("etcd")
	if err != nil {
		return err
	}
	defer log.Close()
	c.plane.Etcd.Out, c.plane.Etcd.Err = log, log
	if err := c.plane.Etcd.Start(); err != nil {
		return fmt.Errorf("starting etcd again: %w\n%s", err, c.tails("etcd"))
	}
	return c.StartAPIServer()
}

// StoreURL returns the URL at which etcd serves its clients, without TLS.
func (c *ControlPlane) StoreURL() string { return c.plane.Etcd.URL.String() }

// KubectlPath returns the path of a kubectl.
func (c *ControlPlane) KubectlPath() string { return c.kubectl }

// Dir returns the absolute path of the directory with state and logs.
func (c *ControlPlane) Dir() string { return c.group.Dir() }

// Stop ends every process, removes a temporary directory, and returns when nothing is left. Processes that don't end
// when asked are killed, which is no error. Calls after the first return what the first did.
func (c *ControlPlane) Stop() error {
	c.stopOnce.Do(func() { c.stopErr = c.stop() })
	return c.stopErr
}

func (c *ControlPlane) stop() error {
	var errs []error
	// The API server before etcd, its clients before the API server: the other way round each waits for the other.
	for _, p := range slices.Backward(c.extra) {
		errs = append(errs, p.Stop(stopTimeout))
	}
	if c.plane != nil {
		// An error means that something did not end in time; the group is closed over it.
		_ = c.plane.Stop()
	}
	return errors.Join(append(errs, c.group.Close())...)
}

func (c *ControlPlane) certDir() string { return filepath.Join(c.group.Dir(), "certs") }

func (c *ControlPlane) kubeconfigPath(component string) string {
	return filepath.Join(c.certDir(), component+".kubeconfig")
}

// tails quotes the ends of logs for an error.
func (c *ControlPlane) tails(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		path := c.group.LogPath(name)
		fmt.Fprintf(&text, "--- the end of %s:\n%s\n", path, process.Tail(path))
	}
	return text.String()
}
