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

package controlplane_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

const (
	patience = time.Minute
	interval = 100 * time.Millisecond
)

func TestControllersRunAndNothingIsLeftBehind(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := controlplane.Start(ctx, controlplane.Options{ControllerManager: true, Scheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}

	const namespace = "controllers"
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	if _, err := client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	// Pods need the ReplicaSet of kube-controller-manager and the ServiceAccount of the admission plugin; the condition
	// is the word of the scheduler.
	eventually(ctx, t, "a pod that the scheduler found no node for", func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 {
			return false, err
		}
		for _, condition := range pods.Items[0].Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return pods.Items[0].Spec.ServiceAccountName == "default", nil
			}
		}
		return false, nil
	})

	t.Run("RBAC holds for other users", func(t *testing.T) {
		kubeconfig, err := c.Kubeconfig("jane", "developers")
		if err != nil {
			t.Fatal(err)
		}
		file := t.TempDir() + "/kubeconfig"
		if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(ctx, c.KubectlPath(), "--kubeconfig="+file, "get", "pods").CombinedOutput()
		if err == nil || !strings.Contains(string(out), `User "jane" cannot list resource "pods"`) {
			t.Errorf("kubectl get pods as jane: got %v, %s; want a refusal", err, out)
		}
	})

	running := process.Recorded(c.Dir())
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if running[name] == 0 {
			t.Errorf("%s is not recorded: got %v", name, running)
		}
	}
	if err := c.Stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("stopping again: %v", err)
	}
	for name, pid := range running {
		if process.Mentions(pid, c.Dir()) {
			t.Errorf("%s (process %d) outlives Stop", name, pid)
		}
	}
	if _, err := os.Stat(c.Dir()); !os.IsNotExist(err) {
		t.Errorf("the temporary directory is left: %v", err)
	}
}

func TestStartIsAborted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := controlplane.Start(ctx, controlplane.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("got %v, want that the start was cancelled", err)
	}
	if left := process.Recorded(dir); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}

func TestMissingBinariesSayWhatToDo(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	_, err := controlplane.Binary("no-such-binary")
	if err == nil || !strings.Contains(err.Error(), "make controlplane") {
		t.Errorf("got %v, want to be told to run make controlplane", err)
	}
}

func eventually(ctx context.Context, t *testing.T, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(ctx, interval, patience, true, condition); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}
