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
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/configuration"
	"github.com/berth-dev/berth/internal/setup"
)

// comparable takes from an object what names who manages it, and which image it is of.
func comparable(o client.Object) client.Object {
	labels := o.GetLabels()
	for _, key := range []string{"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "app.kubernetes.io/name"} {
		delete(labels, key)
	}
	if len(labels) == 0 {
		labels = nil
	}
	o.SetLabels(labels)
	if d, ok := o.(*appsv1.Deployment); ok {
		d.Spec.Template.Spec.Containers[0].Image = ""
		d.Spec.Template.Spec.Containers[0].ImagePullPolicy = ""
	}
	return o
}

func expectSame(t *testing.T, want, have objects) {
	t.Helper()
	for key, o := range want {
		if have[key] == nil {
			t.Errorf("the chart lacks %s", key)
		} else if diff := cmp.Diff(comparable(o), comparable(have[key])); diff != "" {
			t.Errorf("%s differs (-config +chart):\n%s", key, diff)
		}
	}
	for key := range have {
		if want[key] == nil {
			t.Errorf("the chart has %s besides", key)
		}
	}
}

func TestChartInstallsWhatConfigInstalls(t *testing.T) {
	text, err := kustomize("config/default")
	want := rendered(t, text, err)
	// With Helm, the user creates the namespace, or passes --create-namespace.
	delete(want, "Namespace/"+namespace)
	expectSame(t, want, chart(t))
}

func TestChartObservesAsConfigDoes(t *testing.T) {
	want := objects{}
	for _, path := range []string{"config/prometheus", "config/grafana"} {
		text, err := kustomize(path)
		maps.Copy(want, rendered(t, text, err))
	}
	have := chart(t, "--set", "metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.grafanaDashboard.enabled=true")
	for key := range chart(t) {
		delete(have, key)
	}
	expectSame(t, want, have)
}

const everything = `
fullnameOverride: ship
image: {repository: registry.example.com/berth, tag: v9, digest: "sha256:0123456789012345678901234567890123456789012345678901234567890123", pullPolicy: Always}
imagePullSecrets: [{name: pull}]
replicas: 3
resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 2Gi}}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: control, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
topologySpreadConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]
priorityClassName: high
podLabels: {team: platform}
podAnnotations: {note: "yes"}
serviceAccount: {annotations: {iam: role}}
podDisruptionBudget: {minAvailable: 50%}
networkPolicy: {webhookFrom: [{ipBlock: {cidr: 192.0.2.10/32}}], egress: [{to: [{ipBlock: {cidr: 10.0.0.1/32}}], ports: [{port: 6443, protocol: TCP}]}]}
webhook: {url: "https://berth.example.com:9443", certManagement: external, tokenLifetime: 5m, clientCA: {configMap: api-server, names: [kube-apiserver, backup]}}
rbac: {viewers: ["system:authenticated", auditors], extraRules: [{apiGroups: [example.com], resources: [databases], verbs: [get, list, watch]}]}
reservationTTL: 2m
evaluationTimeout: 500ms
predicates: [NodeName, TaintToleration, NodeResourcesFit]
policyReports: [openreports.io, wgpolicyk8s.io]
config: {predicates: {pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/a]}}]}}
extraArgs: [--zap-log-level=debug]
metrics:
  serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
  grafanaDashboard: {enabled: true, labels: {grafana_dashboard: "1", folder: ops}}
`

func valuesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// expectKeys expects each key of one tree of values in another, down to where users have keys of their own. What is on
// by default is tried by default.
func expectKeys(t *testing.T, path string, in, keys map[string]any) {
	t.Helper()
	for key, value := range keys {
		below, _ := in[key].(map[string]any)
		switch values, isMap := value.(map[string]any); {
		case value == true:
		case in[key] == nil:
			t.Errorf("the value %s%s is not tried", path, key)
		case isMap:
			expectKeys(t, path+key+".", below, values)
		}
	}
}

func TestChartWithEveryValue(t *testing.T) {
	// Every value that there is must be among them.
	var set, known map[string]any
	text, err := os.ReadFile(filepath.Join(root, "charts", "berth", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for into, text := range map[*map[string]any][]byte{&set: []byte(everything), &known: text} {
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatal(err)
		}
	}
	expectKeys(t, "", set, known)

	have := chart(t, "--values", valuesFile(t, everything))
	d := the[*appsv1.Deployment](t, have, "Deployment/ship-controller-manager")
	pod := d.Spec.Template.Spec
	manager := pod.Containers[0]
	if *d.Spec.Replicas != 3 || pod.NodeSelector["kubernetes.io/os"] != "linux" || pod.Tolerations[0].Key != "control" ||
		pod.Affinity.NodeAffinity == nil || pod.Affinity.PodAntiAffinity != nil || pod.TopologySpreadConstraints[0].TopologyKey != "rack" ||
		pod.PriorityClassName != "high" || pod.ImagePullSecrets[0].Name != "pull" || manager.ImagePullPolicy != corev1.PullAlways ||
		manager.Resources.Limits.Memory().String() != "2Gi" || manager.Resources.Requests.Cpu().String() != "1" {
		t.Errorf("the Deployment does not have the values: %+v", d.Spec)
	}
	if want := "registry.example.com/berth@sha256:0123456789012345678901234567890123456789012345678901234567890123"; manager.Image != want {
		t.Errorf("image %s, want %s", manager.Image, want)
	}
	if l := d.Spec.Template.Labels; l["team"] != "platform" || l["control-plane"] != "controller-manager" || d.Spec.Template.Annotations["note"] != "yes" {
		t.Errorf("labels and annotations of the pods: %v, %v", l, d.Spec.Template.Annotations)
	}
	for _, arg := range []string{
		"--webhook-service=ship-webhook-service", "--owner-cluster-role=ship-manager-role", "--webhook-url=https://berth.example.com:9443",
		"--webhook-cert-management=external", "--quota-reservation-ttl=2m", "--evaluation-timeout=500ms", "--zap-log-level=debug",
		"--policy-reports=openreports.io,wgpolicyk8s.io", "--predicates=NodeName,TaintToleration,NodeResourcesFit", "--config=/etc/berth/manager.yaml", "--webhook-token-lifetime=5m",
		"--webhook-client-ca-file=/etc/berth-client-ca/ca.crt", "--webhook-client-names=kube-apiserver,backup", "--namespace=$(POD_NAMESPACE)",
	} {
		if !slices.Contains(manager.Args, arg) {
			t.Errorf("the manager lacks %s: %q", arg, manager.Args)
		}
	}
	expectCallers(t, pod, the[*networkingv1.NetworkPolicy](t, have, "NetworkPolicy/ship-controller-manager"))
	the[*corev1.Service](t, have, "Service/ship-webhook-service")
	// The right to read the owner is on the release's own role.
	role := the[*rbacv1.ClusterRole](t, have, "ClusterRole/ship-manager-role")
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Equal(r.Resources, []string{"clusterroles"}) && slices.Equal(r.ResourceNames, []string{"ship-manager-role"})
	}) {
		t.Errorf("the manager may not read the ClusterRole that it is given as owner: %v", role.Rules)
	}
	if extra := the[*rbacv1.ClusterRole](t, have, "ClusterRole/ship-workloads-extra"); extra.Labels["placement.berth.dev/aggregate-to-manager"] != "true" ||
		extra.Rules[0].Resources[0] != "databases" {
		t.Errorf("the role with the extra rules: %v", extra)
	}
	for _, kind := range []string{"placementpolicy", "clusterscopedquota", "limitedresource"} {
		binding := the[*rbacv1.ClusterRoleBinding](t, have, "ClusterRoleBinding/ship-"+kind+"-viewers")
		role := the[*rbacv1.ClusterRole](t, have, "ClusterRole/"+binding.RoleRef.Name)
		if len(binding.Subjects) != 2 || binding.Subjects[0].Kind != rbacv1.GroupKind || binding.Subjects[0].Name != "system:authenticated" ||
			slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
				return slices.ContainsFunc(r.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
			}) {
			t.Errorf("the rights of viewers: %+v, %+v", binding, role)
		}
	}
	if account := the[*corev1.ServiceAccount](t, have, "ServiceAccount/ship-controller-manager"); account.Annotations["iam"] != "role" {
		t.Errorf("the ServiceAccount's annotations: %v", account.Annotations)
	}
	if budget := the[*policyv1.PodDisruptionBudget](t, have, "PodDisruptionBudget/ship-controller-manager"); budget.Spec.MinAvailable.String() != "50%" {
		t.Errorf("the budget: %v", budget.Spec)
	}
	network := the[*networkingv1.NetworkPolicy](t, have, "NetworkPolicy/ship-controller-manager")
	if !slices.Contains(network.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) || network.Spec.Egress[0].To[0].IPBlock.CIDR != "10.0.0.1/32" {
		t.Errorf("the NetworkPolicy: %v", network.Spec)
	}
	if m := the[*serviceMonitor](t, have, "ServiceMonitor/ship-controller-manager"); m.Spec.Endpoints[0].Interval != "15s" || m.Labels["release"] != "prometheus" {
		t.Errorf("the ServiceMonitor: %v", m)
	}
	if r := the[*prometheusRule](t, have, "PrometheusRule/ship-controller-manager"); r.Labels["release"] != "prometheus" {
		t.Errorf("the PrometheusRule: %v", r)
	}
	if c := the[*corev1.ConfigMap](t, have, "ConfigMap/ship-dashboard"); c.Labels["folder"] != "ops" {
		t.Errorf("the dashboard: %v", c.Labels)
	}
	for key, o := range have {
		if !strings.Contains(key, "CustomResourceDefinition/") && !strings.Contains(key, "/ship-") {
			t.Errorf("%s has another release's name", key)
		}
		if o.GetNamespace() != "" && o.GetNamespace() != namespace {
			t.Errorf("%s is in the namespace %s", key, o.GetNamespace())
		}
	}
}

// expectCallers expects the authorities of the webhooks' callers in the pod, and port 9443 open to the callers alone.
func expectCallers(t *testing.T, pod corev1.PodSpec, network *networkingv1.NetworkPolicy) {
	t.Helper()
	volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == "api-server" })
	if volume < 0 || !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == pod.Volumes[volume].Name && m.MountPath == "/etc/berth-client-ca" && m.SubPath == ""
	}) {
		t.Errorf("the authorities of the webhooks' callers: %+v at %+v", pod.Volumes, pod.Containers[0].VolumeMounts)
	}
	for _, rule := range network.Spec.Ingress {
		for _, port := range rule.Ports {
			if limited := len(rule.From) == 1 && rule.From[0].IPBlock.CIDR == "192.0.2.10/32"; limited != (port.Port.IntValue() == 9443) {
				t.Errorf("port %s is open to %v", port.Port, rule.From)
			}
		}
	}
}

// The configuration file is one that the manager takes, where it looks for it, and pods with another one are others.
func TestChartConfigures(t *testing.T) {
	const value = "config: {predicates: {pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [%s]}}]}}\n"
	stamps := map[string]bool{}
	for _, ignored := range []string{"example.com/a", "example.com/b"} {
		have := chart(t, "--values", valuesFile(t, fmt.Sprintf(value, ignored)))
		file := filepath.Join(t.TempDir(), "manager.yaml")
		text := the[*corev1.ConfigMap](t, have, "ConfigMap/berth-controller-manager").Data[filepath.Base(file)]
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := configuration.Load(file)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if c := got.Predicates.PluginConfig; len(c) != 1 || !strings.Contains(string(c[0].Args.Raw), ignored) {
			t.Errorf("arguments of predicates: %v", c)
		}
		pod := the[*appsv1.Deployment](t, have, "Deployment/berth-controller-manager").Spec.Template
		volume, mount := pod.Spec.Volumes[0], pod.Spec.Containers[0].VolumeMounts[0]
		if volume.ConfigMap.Name != "berth-controller-manager" || mount.Name != volume.Name || mount.MountPath != "/etc/berth" {
			t.Errorf("mounted is %+v at %+v", volume, mount)
		}
		stamps[pod.Annotations["berth.dev/config"]] = true
	}
	if len(stamps) != 2 {
		t.Errorf("pods with another file have the same template: %v", stamps)
	}
}

func TestChartIsClean(t *testing.T) {
	helm, err := toolPath("helm")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"--values", valuesFile(t, everything)}} {
		if _, err := run("", helm, append([]string{"lint", "--strict", "charts/berth"}, args...)...); err != nil {
			t.Error(err)
		}
	}
}

func TestChartLeavesOut(t *testing.T) {
	have := chart(t, "--set", "replicas=1,networkPolicy.enabled=false")
	for _, key := range []string{"PodDisruptionBudget/berth-controller-manager", "NetworkPolicy/berth-controller-manager"} {
		if have[key] != nil {
			t.Errorf("%s is there", key)
		}
	}
}

func TestChartNames(t *testing.T) {
	for release, want := range map[string]string{
		"berth": "berth", "my-berth": "my-berth", "placement": "placement-berth",
		"a-release-with-a-name-as-long-as-helm-lets-it-be-here": "a-release-with-a-name-as-lon",
	} {
		text, err := helmTemplate("--name-template", release)
		have := rendered(t, text, err)
		d := the[*appsv1.Deployment](t, have, "Deployment/"+want+"-controller-manager")
		if !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--webhook-service="+want+"-webhook-service") {
			t.Errorf("release %s: %q", release, d.Spec.Template.Spec.Containers[0].Args)
		}
		the[*corev1.Service](t, have, "Service/"+want+"-webhook-service")
		for key := range have {
			if _, name, _ := strings.Cut(key, "/"); len(name) > 63 {
				t.Errorf("%s is too long a name", key)
			}
		}
	}
}

func TestChartRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"NegativeReplicas":  {"--set", "replicas=-1"},
		"ReplicasInWords":   {"--set", "replicas=two"},
		"HalfAReplica":      {"--set", "replicas=1.5"},
		"UnknownKey":        {"--set", "replicaCount=2"},
		"UnknownKeyInImage": {"--set", "image.name=x"},
		"NoRepository":      {"--set", "image.repository="},
		"Latest":            {"--set", "image.tag=latest"},
		"Digest":            {"--set", "image.digest=sha256:12"},
		"PullPolicy":        {"--set", "image.pullPolicy=Sometimes"},
		"PlainURL":          {"--set", "webhook.url=http://berth.example.com"},
		"URLWithPath":       {"--set", "webhook.url=https://berth.example.com/path"},
		"CertManagement":    {"--set", "webhook.certManagement=mine"},
		"Duration":          {"--set", "reservationTTL=65"},
		"Argument":          {"--set", "extraArgs={debug}"},
		"Predicates":        {"--set", "predicates=NodeName"},
		"PredicatesInOne":   {"--set-json", `predicates=["NodeName,NodePorts"]`},
		"PolicyReports":     {"--set", "policyReports={openreports}"},
		"ConfigWithKind":    {"--set", "config.kind=ManagerConfiguration"},
		"WriteRights":       {"--set-json", `rbac.extraRules=[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]}]`},
		"RuleOfNothing":     {"--set-json", `rbac.extraRules=[{"verbs":["get"]}]`},
		"EnabledInWords":    {"--set-string", "networkPolicy.enabled=on"},
		"LongName":          {"--set", "fullnameOverride=a-name-that-is-too-long-for-a-service"},
		"AllAvailable":      {"--set-string", "podDisruptionBudget.minAvailable=100%"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := helmTemplate(args...); err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") {
				t.Errorf("%q: %v", args, err)
			}
		})
	}
	const drained = "podDisruptionBudget.minAvailable is 2 of 2 replicas, so that no node with one of them can be drained"
	if _, err := helmTemplate("--set", "replicas=2,podDisruptionBudget.minAvailable=2"); err == nil || !strings.Contains(err.Error(), drained) {
		t.Errorf("error %v, want %s", err, drained)
	}
}

// An image that may be another one tomorrow is not a release.
func TestImages(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`(?m)^RELEASE = (\S+)$`).FindSubmatch(makefile)
	if release == nil {
		t.Fatal("the Makefile does not say what the release is")
	}
	want := "ghcr.io/berth-dev/berth:v" + string(release[1])
	path, err := installer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	manifests := rendered(t, string(text), err)
	for name, have := range map[string]objects{"dist/install.yaml": manifests, "charts/berth": chart(t)} {
		image := the[*appsv1.Deployment](t, have, "Deployment/berth-controller-manager").Spec.Template.Spec.Containers[0].Image
		if image != want {
			t.Errorf("%s installs %s, want %s", name, image, want)
		}
	}
	if strings.Contains(string(text), ":latest") {
		t.Error("dist/install.yaml installs what is the latest")
	}
}

// What the manifests say of ports and flags is what the manager understands.
func TestFlags(t *testing.T) {
	args := the[*appsv1.Deployment](t, chart(t, "--values", valuesFile(t, everything)), "Deployment/ship-controller-manager").Spec.Template.Spec.Containers[0].Args
	var options setup.Options
	if err := parse(&options, slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "--zap-") })); err != nil {
		t.Fatal(err)
	}
	if options.OwnerClusterRole != "ship-manager-role" || options.WebhookPort != 9443 || !options.LeaderElection || !options.MetricsSecure {
		t.Errorf("options %+v", options)
	}
}
