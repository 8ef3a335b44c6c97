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

package admission_test

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

const (
	// sharedVariable is the environment variable by which fuzz workers learn the directory of the cluster that the
	// coordinating process runs.
	sharedVariable = "BERTH_FUZZ_CLUSTER"

	operatorNamespace = "berth-system"
	operatorUser      = "system:serviceaccount:" + operatorNamespace + ":berth-controller-manager"
	developerUser     = "developer"

	startTimeout = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// manifests are what the cluster has before the first recipe: a custom resource, rights, objects that are older than the
// policies, and the policies.
//
//go:embed testdata/cluster.yaml testdata/existing.yaml testdata/policies.yaml
var manifests embed.FS

// cluster is a control plane and one replica of the manager, as processes of their own, so that the test binary, which
// fuzzing compiles each time, stays small.
type cluster struct {
	dir string
	// binary is the path of the manager, compiled without the instrumentation of fuzzing.
	binary  string
	plane   *controlplane.ControlPlane
	group   *process.Group
	manager *process.Process
	// versions are those of the objects that are older than the policies, and remediated is how many patches brought them
	// into line.
	versions   map[string]string
	remediated int
}

// isWorker reports whether this process is one that the coordinator of native fuzzing started.
func isWorker() bool {
	f := flag.Lookup("test.fuzzworker")
	return f != nil && f.Value.String() == "true"
}

// newCluster starts a cluster with all policies in force. Workers of native fuzzing share the one of their coordinator.
func newCluster(tb testing.TB) *cluster {
	tb.Helper()
	if dir := os.Getenv(sharedVariable); dir != "" && isWorker() {
		return &cluster{dir: dir}
	}
	dir := tb.TempDir()
	// Workers inherit it.
	tb.Setenv(sharedVariable, dir)
	c := &cluster{dir: dir}
	var err error
	if c.binary, err = controlplane.Program(tb.Context(), "./cmd/manager"); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	tb.Cleanup(func() {
		if err := c.stop(); err != nil {
			tb.Errorf("stopping the cluster: %v", err)
		}
	})
	for _, step := range []func(context.Context) error{c.startPlane, c.startManager, c.install} {
		if err := step(ctx); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() {
		if err := c.checkSettled(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return c
}

func (c *cluster) kubeconfig(user string) string {
	return filepath.Join(c.dir, strings.ReplaceAll(user, ":", "-")+".kubeconfig")
}

func (c *cluster) startPlane(ctx context.Context) error {
	var err error
	if c.plane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return err
	}
	for user, groups := range map[string][]string{
		controlplane.AdminUser: {"system:masters"},
		developerUser:          nil,
		operatorUser:           {"system:serviceaccounts", "system:serviceaccounts:" + operatorNamespace},
	} {
		text, err := c.plane.Kubeconfig(user, groups...)
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.kubeconfig(user), text, 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", "config/dev"},
		// Without a controller manager, ClusterRoles are not aggregated.
		{"create", "clusterrolebinding", "berth-fuzz-wide", "--clusterrole=berth-dev-wide", "--user=" + operatorUser},
	} {
		if err := c.kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	if err := c.applyManifests(ctx, "cluster.yaml"); err != nil {
		return err
	}
	for _, state := range controlplane.DefinitionStates {
		if err := c.kubectl(ctx, "", "wait", "--for="+state, "--timeout=60s", "crd", "--all"); err != nil {
			return err
		}
	}
	return nil
}

// kubectl runs kubectl as an administrator.
func (c *cluster) kubectl(ctx context.Context, stdin string, args ...string) error {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.plane.KubectlPath(), args...)
	cmd.Dir, cmd.Stdin = root, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig(controlplane.AdminUser))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (c *cluster) applyManifests(ctx context.Context, file string) error {
	text, err := manifests.ReadFile("testdata/" + file)
	if err != nil {
		return err
	}
	return c.kubectl(ctx, string(text), "apply", "--server-side", "-f", "-")
}

// applyForModes applies a file once for each remediation mode.
func (c *cluster) applyForModes(ctx context.Context, file string) error {
	text, err := manifests.ReadFile("testdata/" + file)
	if err != nil {
		return err
	}
	var all strings.Builder
	for _, mode := range remediations {
		all.WriteString("---\n" + strings.NewReplacer("MODE", mode, "-mode\n", "-"+strings.ToLower(mode)+"\n").Replace(string(text)))
	}
	return c.kubectl(ctx, all.String(), "apply", "--server-side", "-f", "-")
}

func (c *cluster) startManager(ctx context.Context) error {
	var err error
	if c.group, err = process.NewGroup(filepath.Join(c.dir, "group"), false); err != nil {
		return err
	}
	const tries = 3
	for range tries {
		if err = c.tryManager(ctx); err == nil || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
	return err
}

// tryManager starts the manager and waits until it is ready. It fails if another process took one of its ports.
func (c *cluster) tryManager(ctx context.Context) error {
	ports, err := process.FreePorts(2)
	if err != nil {
		return err
	}
	probes := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[1]))
	c.manager, err = c.group.Start("manager", c.binary,
		"--kubeconfig="+c.kubeconfig(operatorUser), "--webhook-url=https://localhost:"+strconv.Itoa(ports[0]),
		"--webhook-host=127.0.0.1", "--webhook-port="+strconv.Itoa(ports[0]), "--health-probe-bind-address="+probes,
		// A slow machine is no finding.
		"--evaluation-timeout=3s",
	)
	if err != nil {
		return err
	}
	log := c.group.LogPath("manager")
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		select {
		case <-c.manager.Done():
			return false, fmt.Errorf("the manager has ended: %w\n%s", c.manager.Err(), process.Tail(log))
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probes+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

// install creates the objects that are older than the policies, then the policies, and waits until the API server asks
// for all of them.
func (c *cluster) install(ctx context.Context) error {
	if err := c.applyForModes(ctx, "existing.yaml"); err != nil {
		return err
	}
	if err := c.applyForModes(ctx, "policies.yaml"); err != nil {
		return err
	}
	if err := c.kubectl(ctx, "", "wait", "--for=condition=Ready", "--timeout=60s", "placementpolicies", "--all"); err != nil {
		return err
	}
	admin, err := c.client(controlplane.AdminUser)
	if err != nil {
		return err
	}
	if c.remediated, c.versions, err = c.settle(ctx); err != nil {
		return err
	}
	// The API server's own copy of the webhook configuration lags behind what is stored.
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		for _, mode := range remediations {
			for _, probe := range []struct{ label, annotation string }{{forbiddenKey, "plain"}, {selectedKey, refusedKey}} {
				body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"probe-","labels":{%q:"yes"},"annotations":{%q:"yes"}}}`, probe.label, probe.annotation)
				path := resources[configMap].path("existing-"+strings.ToLower(mode)) + "?dryRun=All"
				r, err := admin.do(ctx, call{method: http.MethodPost, path: path, contentType: contentJSON, body: []byte(body)})
				if err != nil || r.code != http.StatusForbidden {
					return false, err
				}
			}
		}
		return true, nil
	})
}

func (c *cluster) stop() error {
	var errs []error
	if c.manager != nil {
		errs = append(errs, c.manager.Stop(30*time.Second))
	}
	if c.plane != nil {
		errs = append(errs, c.plane.Stop())
	}
	if c.group != nil {
		errs = append(errs, c.group.Close())
	}
	return errors.Join(errs...)
}

// client returns a client that acts as a user that startPlane created.
func (c *cluster) client(user string) (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig(user))
	if err != nil {
		return nil, err
	}
	return newClient(config)
}

// response is what the API server answers.
type response struct {
	code int
	// body is the JSON of an object or of a Status.
	body []byte
}

func (r response) ok() bool { return r.code >= 200 && r.code < 300 }

// object returns the body as JSON values of Go, with numbers as they were written.
func (r response) object() (map[string]any, error) { return decodeObject(r.body) }

func decodeObject(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	out := map[string]any{}
	if err := decoder.Decode(&out); err != nil {
		return nil, fmt.Errorf("decoding an answer of the API server: %w", err)
	}
	return out, nil
}

// message returns the message of a Status; empty if the body is none.
func (r response) message() string {
	var status struct{ Message string }
	if json.Unmarshal(r.body, &status) != nil {
		return string(r.body)
	}
	return status.Message
}
