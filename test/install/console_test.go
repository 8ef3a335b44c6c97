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
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestConsole checks that the console in a cluster has no rights, is hardened, and is reached by its Service.
func TestConsole(t *testing.T) {
	text, err := kustomize("config/console")
	have := rendered(t, text, err)
	var kinds []string
	for key := range have {
		kind, _, _ := strings.Cut(key, "/")
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	if want := []string{"Deployment", "NetworkPolicy", "Role", "Service", "ServiceAccount"}; !slices.Equal(kinds, want) {
		t.Errorf("it has %v, want %v: the console needs no rights, so no role is bound", kinds, want)
	}
	account := the[*corev1.ServiceAccount](t, have, "ServiceAccount/berth-console")
	d := the[*appsv1.Deployment](t, have, "Deployment/berth-console")
	pod := d.Spec.Template.Spec
	if *account.AutomountServiceAccountToken || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != account.Name {
		t.Error("the pod gets a token")
	}
	if s := pod.SecurityContext; s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context: %v", s)
	}
	container := pod.Containers[0]
	s := container.SecurityContext
	if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
		t.Errorf("the container's security context: %v", s)
	}
	if container.Resources.Limits.Memory().IsZero() || container.LivenessProbe == nil || container.ReadinessProbe == nil {
		t.Errorf("the container has no limit, or is not probed: %+v", container)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`(?m)^RELEASE = (\S+)$`).FindSubmatch(makefile)
	if release == nil || container.Image != "ghcr.io/berth-dev/berth-console:v"+string(release[1]) {
		t.Errorf("the image is %s, of another release than the Makefile says", container.Image)
	}
	port := container.Ports[0]
	if !slices.Contains(container.Args, "--listen=:8443") || port.ContainerPort != 8443 {
		t.Errorf("the console listens at another port than %d: %v", port.ContainerPort, container.Args)
	}
	service := the[*corev1.Service](t, have, "Service/berth-console")
	if service.Spec.Ports[0].TargetPort.String() != port.Name {
		t.Errorf("the Service leads to %s", service.Spec.Ports[0].TargetPort.String())
	}
	role := the[*rbacv1.Role](t, have, "Role/berth-console-user")
	if want := []string{"https:" + service.Name + ":" + service.Spec.Ports[0].Name}; len(role.Rules) != 1 || !slices.Equal(role.Rules[0].ResourceNames, want) {
		t.Errorf("the role is for %v, want %v", role.Rules, want)
	}
	policy := the[*networkingv1.NetworkPolicy](t, have, "NetworkPolicy/berth-console")
	for name, selector := range map[string]map[string]string{"the Service": service.Spec.Selector, "the policy": policy.Spec.PodSelector.MatchLabels} {
		for key, value := range selector {
			if d.Spec.Template.Labels[key] != value {
				t.Errorf("%s does not select the pods: %v", name, selector)
			}
		}
	}
	if got := policy.Spec.Ingress[0].Ports[0].Port.IntValue(); got != int(port.ContainerPort) {
		t.Errorf("the policy lets connections in at port %d", got)
	}
}

// TestConsoleCertificate checks that the patch of the console mounts a certificate where the arguments name it.
func TestConsoleCertificate(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "config", "console"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"patches:", "- path: certificate_patch.yaml", "  target: {kind: Deployment}"} {
		text = []byte(strings.Replace(string(text), "\n# "+line+"\n", "\n"+line+"\n", 1))
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := kustomize(dir)
	pod := the[*appsv1.Deployment](t, rendered(t, made, err), "Deployment/berth-console").Spec.Template.Spec
	container := pod.Containers[0]
	i := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "certificate" })
	if i < 0 || !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Name == "certificate" && v.Secret != nil && v.Secret.SecretName == "berth-console-certificate"
	}) {
		t.Fatalf("the certificate is not mounted: %v", pod)
	}
	folder := container.VolumeMounts[i].MountPath
	for _, want := range []string{"--serving-certificate=" + folder + "/tls.crt", "--serving-key=" + folder + "/tls.key"} {
		if !slices.Contains(container.Args, want) {
			t.Errorf("the arguments %v lack %s", container.Args, want)
		}
	}
}
