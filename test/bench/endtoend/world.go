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

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/bench/fixture"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

const (
	operatorNamespace = "berth-system"
	operatorUser      = "system:serviceaccount:" + operatorNamespace + ":berth-controller-manager"

	// startTimeout is for one step of the start on a machine that is busy with other things.
	startTimeout = 5 * time.Minute
	pollInterval = 100 * time.Millisecond
	// atOnce is how many objects are created at a time.
	atOnce = 16

	// variantLabel is the label of namespaces by which policies and webhooks choose theirs.
	variantLabel = "bench.berth.dev/variant"
)

// world is a control plane with webhooks, each of which gets the requests of its own namespaces.
type world struct {
	plane      *controlplane.ControlPlane
	group      *process.Group
	client     client.Client
	clients    *clients
	kubeconfig string
	// berth and fixed are the webhooks' processes; nil where they don't run.
	berth, fixed *process.Process
	// profiles is where Berth serves its profiles.
	profiles string
}

// newWorld starts a control plane with Berth's definitions in it, and n clients.
func newWorld(ctx context.Context, n int) (_ *world, err error) {
	w := &world{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	if w.group, err = process.NewGroup(dir, true); err != nil {
		return nil, err
	}
	if w.plane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return nil, err
	}
	cfg := w.plane.Config()
	cfg.QPS = -1
	if w.clients, err = newClients(cfg, n); err != nil {
		return nil, err
	}
	if w.client, err = client.New(cfg, client.Options{Scheme: setup.NewScheme()}); err != nil {
		return nil, err
	}
	text, err := w.plane.Kubeconfig(controlplane.AdminUser, "system:masters")
	if err != nil {
		return nil, err
	}
	w.kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(w.kubeconfig, text, 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", "config/dev"},
		{"apply", "--server-side", "-f", "hack/demo/clusterprofile-crd.yaml"},
		{"wait", "--for=" + controlplane.DefinitionStates[0], "--timeout=60s", "crd", "--all"},
		{"wait", "--for=" + controlplane.DefinitionStates[1], "--timeout=60s", "crd", "--all"},
		// Without a controller manager, ClusterRoles are not aggregated.
		{"create", "clusterrolebinding", "berth-bench-wide", "--clusterrole=berth-dev-wide", "--user=" + operatorUser},
	} {
		if err := w.kubectl(ctx, args...); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) stop() error {
	var errs []error
	for _, p := range []*process.Process{w.berth, w.fixed} {
		if p != nil {
			errs = append(errs, p.Kill())
		}
	}
	if w.plane != nil {
		errs = append(errs, w.plane.Stop())
	}
	if w.group != nil {
		errs = append(errs, w.group.Close())
	}
	return errors.Join(errs...)
}

func (w *world) kubectl(ctx context.Context, args ...string) error {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, w.plane.KubectlPath(), args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "KUBECONFIG="+w.kubeconfig)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
	}
	return nil
}

// startBerth starts the operator and waits until it is ready.
func (w *world) startBerth(ctx context.Context, binary string) error {
	kubeconfig, err := w.plane.Kubeconfig(operatorUser, "system:serviceaccounts", "system:serviceaccounts:"+operatorNamespace)
	if err != nil {
		return err
	}
	path := filepath.Join(w.group.Dir(), "operator.kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return err
	}
	ports, err := process.FreePorts(3)
	if err != nil {
		return err
	}
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	w.profiles = at(ports[2])
	// As in the container of its manifests.
	if err := os.Setenv("GOMEMLIMIT", "920MiB"); err != nil {
		return err
	}
	w.berth, err = w.group.Start("manager", binary, "--kubeconfig="+path,
		"--webhook-url=https://localhost:"+strconv.Itoa(ports[0]), "--webhook-host=127.0.0.1", "--webhook-port="+strconv.Itoa(ports[0]),
		"--health-probe-bind-address="+at(ports[1]), "--pprof-bind-address="+w.profiles,
		// What takes long on a busy machine is to be measured, not refused.
		"--evaluation-timeout=4s")
	if err != nil {
		return err
	}
	return w.await(ctx, w.berth, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at(ports[1])+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return errors.Join(err, response.Body.Close())
	})
}

// startFixed starts the webhook that returns a fixed patch, for the namespace of a variant: what Berth changes in a
// Deployment of another variant, so that the API server has as much to apply.
func (w *world) startFixed(ctx context.Context, namespace string, like *variant) error {
	dir := filepath.Join(w.group.Dir(), "fixed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	bundle, err := writeCertificate(dir)
	if err != nil {
		return err
	}
	body := like.bodies(1)[0]
	placed, err := w.clients.create(ctx, w.clients.each[0], like.namespace, body)
	if err != nil {
		return err
	}
	patch, err := patchBetween(body, placed)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, fixedPatch), patch, 0o600); err != nil {
		return fmt.Errorf("writing the fixed webhook's patch: %w", err)
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if w.fixed, err = w.group.Start("fixed", self, "-serve-fixed="+dir, "-port="+strconv.Itoa(ports[0])); err != nil {
		return err
	}
	return w.client.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "fixed"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "fixed.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(fmt.Sprintf("https://localhost:%d/", ports[0])),
				CABundle: bundle},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{variantLabel: namespace}},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	})
}

// await tries until there is no error, or the process, if any, has ended.
func (w *world) await(ctx context.Context, p *process.Process, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true, func(ctx context.Context) (bool, error) {
		if p != nil {
			select {
			case <-p.Done():
				return false, fmt.Errorf("%s has ended: %w\n%s", p.Name(), p.Err(), process.Tail(w.group.LogPath(p.Name())))
			default:
			}
		}
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// addNamespace creates the namespace of a variant, of the same name.
func (w *world) addNamespace(ctx context.Context, variant string) error {
	return w.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: variant,
		Labels: map[string]string{variantLabel: variant}}})
}

// addClusters creates n clusters in a namespace of that name.
func (w *world) addClusters(ctx context.Context, namespace string, n int) error {
	if err := w.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	var objects []client.Object
	for _, o := range fixture.Clusters(namespace, n) {
		// The API server's own.
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
		objects = append(objects, o)
	}
	return w.create(ctx, objects)
}

// addPolicies creates policies, each for the namespaces of one variant, and waits until they are in force.
func (w *world) addPolicies(ctx context.Context, policies []*placementv1.PlacementPolicy) error {
	objects := make([]client.Object, len(policies))
	for i, p := range policies {
		objects[i] = p
	}
	if err := w.create(ctx, objects); err != nil {
		return err
	}
	return w.kubectl(ctx, "wait", "--for=condition=Ready", "--timeout="+startTimeout.String(), "placementpolicies", "--all")
}

func (w *world) create(ctx context.Context, objects []client.Object) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, o := range objects {
		g.Go(func() error { return w.client.Create(ctx, o) })
	}
	return g.Wait()
}

// awaitPatched waits until the API server has a webhook patch what is created in a namespace: its own copy of the
// webhook configurations lags behind what is stored.
func (w *world) awaitPatched(ctx context.Context, p *process.Process, namespace, annotation string, body []byte) error {
	return w.await(ctx, p, func(ctx context.Context) error {
		text, err := w.clients.create(ctx, w.clients.each[0], namespace, body)
		if err == nil && !bytes.Contains(text, []byte(annotation)) {
			err = fmt.Errorf("what is created in %s is not patched", namespace)
		}
		return err
	})
}
