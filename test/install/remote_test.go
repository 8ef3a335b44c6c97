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

package install_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/setup"
)

func overlay(t *testing.T, name string) objects {
	t.Helper()
	text, err := kustomize("config/remote/" + name)
	return rendered(t, text, err)
}

// forMetrics reports whether a ClusterRole or its binding concerns only the metrics.
func forMetrics(key string) bool { return strings.Contains(key, "/berth-metrics-") }

func clusterWide(key string) bool { return strings.HasPrefix(key, "ClusterRole") }

// In the host cluster is what config/default installs, with the same hardening, but for definitions and rights over
// workloads.
func TestRemoteHost(t *testing.T) {
	want, have := manifests(t), overlay(t, "host")
	maps.DeleteFunc(want, func(key string, _ client.Object) bool {
		return strings.HasPrefix(key, "CustomResourceDefinition/") || clusterWide(key) && !forMetrics(key)
	})
	const deployment = "Deployment/berth-controller-manager"
	plain := the[*appsv1.Deployment](t, want, deployment)
	pod, manager := &plain.Spec.Template.Spec, &plain.Spec.Template.Spec.Containers[0]
	manager.Args = append(manager.Args,
		"--kubeconfig=/etc/berth/served/kubeconfig", "--state-cluster=host", "--webhook-url=https://berth-webhook-service.berth-system.svc:443")
	manager.VolumeMounts = []corev1.VolumeMount{{Name: "served", MountPath: "/etc/berth/served", ReadOnly: true}}
	pod.Volumes = []corev1.Volume{{Name: "served", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "berth-served-kubeconfig"}}}}
	role := the[*rbacv1.Role](t, want, "Role/berth-own-namespace-role")
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("config/remote/host differs from what it should be (-want +have):\n%s", diff)
	}

	// What the manifests say of the URL is what the Service is.
	var options setup.Options
	args := slices.DeleteFunc(the[*appsv1.Deployment](t, have, deployment).Spec.Template.Spec.Containers[0].Args, func(a string) bool { return strings.HasPrefix(a, "--kubeconfig=") })
	if err := parse(&options, args); err != nil {
		t.Fatal(err)
	}
	if want := "https://" + options.WebhookService + "." + namespace + ".svc:443"; options.WebhookURL != want || options.StateCluster != setup.StateClusterHost {
		t.Errorf("options %+v, want the URL %s and the state in the host", options, want)
	}
}

// On the served API server are config/default's definitions and rights, and nothing that runs.
func TestRemoteServed(t *testing.T) {
	all := manifests(t)
	delete(all, "Namespace/"+namespace)
	maps.DeleteFunc(all, func(key string, _ client.Object) bool {
		kind, _, _ := strings.Cut(key, "/")
		return slices.Contains([]string{"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}, kind)
	})
	for _, tt := range []struct {
		overlay string
		leave   func(string) bool
	}{
		{"served-state", func(string) bool { return false }},
		{"served", func(key string) bool {
			return strings.HasPrefix(key, "Role") || clusterWide(key) && forMetrics(key)
		}},
	} {
		t.Run(tt.overlay, func(t *testing.T) {
			want, have := maps.Clone(all), overlay(t, tt.overlay)
			maps.DeleteFunc(want, func(key string, _ client.Object) bool { return tt.leave(key) })
			if have["Namespace/"+namespace] == nil {
				t.Error("there is no namespace")
			}
			delete(have, "Namespace/"+namespace)
			// The served API server may have no controller that aggregates the role.
			const binding = "ClusterRoleBinding/berth-workloads-default-rolebinding"
			direct := the[*rbacv1.ClusterRoleBinding](t, have, binding)
			aggregated := the[*rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding/berth-workloads-rolebinding").DeepCopy()
			aggregated.Name, aggregated.RoleRef.Name = "berth-workloads-default-rolebinding", "berth-workloads-default"
			if diff := cmp.Diff(aggregated, direct); diff != "" {
				t.Errorf("the binding of the defaults (-want +have):\n%s", diff)
			}
			delete(have, binding)
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("config/remote/%s differs from what it should be (-want +have):\n%s", tt.overlay, diff)
			}
		})
	}
}
