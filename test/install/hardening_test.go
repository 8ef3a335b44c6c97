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
	"flag"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/setup"
)

func parse(options *setup.Options, args []string) error {
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	options.Bind(flags)
	return flags.Parse(args)
}

func manifests(t *testing.T) objects {
	t.Helper()
	text, err := kustomize("config/default")
	return rendered(t, text, err)
}

func TestPodsAreHardened(t *testing.T) {
	have := manifests(t)
	if enforce := have["Namespace/"+namespace].GetLabels()["pod-security.kubernetes.io/enforce"]; enforce != "restricted" {
		t.Errorf("the namespace enforces %q pods", enforce)
	}
	d := the[*appsv1.Deployment](t, have, "Deployment/berth-controller-manager")
	if *d.Spec.Replicas != 2 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("an upgrade, or the loss of one replica, leaves none: %+v", d.Spec)
	}
	pod := d.Spec.Template.Spec
	if s := pod.SecurityContext; s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context: %v", s)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod shares namespaces with its node")
	}
	if len(pod.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		t.Error("replicas do not avoid each other")
	}
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatalf("the pod has more than the manager")
	}
	manager := pod.Containers[0]
	s := manager.SecurityContext
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 || s.Privileged != nil {
		t.Errorf("the manager's security context: %v", s)
	}
	if manager.LivenessProbe == nil || manager.ReadinessProbe == nil || manager.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Error("the manager is not probed")
	}
	if manager.Resources.Limits.Memory().IsZero() || manager.Resources.Requests.Memory().IsZero() || manager.Resources.Requests.Cpu().IsZero() {
		t.Errorf("the manager's resources: %v", manager.Resources)
	}
	if len(pod.Volumes) > 0 {
		t.Errorf("the pod has somewhere to write to: %v", pod.Volumes)
	}
	selects := func(name string, selector map[string]string) {
		if len(selector) == 0 {
			t.Errorf("%s selects all", name)
		}
		for key, value := range selector {
			if d.Spec.Template.Labels[key] != value {
				t.Errorf("%s does not select the pods: %v", name, selector)
			}
		}
	}
	budget := the[*policyv1.PodDisruptionBudget](t, have, "PodDisruptionBudget/berth-controller-manager")
	selects("the budget", budget.Spec.Selector.MatchLabels)
	if budget.Spec.MinAvailable.IntValue() != 1 {
		t.Errorf("the budget: %v", budget.Spec)
	}
	expectPorts(t, have, manager, selects)
}

// expectPorts holds what lets traffic in against what the manager listens at.
func expectPorts(t *testing.T, have objects, manager corev1.Container, selects func(string, map[string]string)) {
	t.Helper()
	var options setup.Options
	if err := parse(&options, manager.Args); err != nil {
		t.Fatal(err)
	}
	open := map[int32]string{int32(options.WebhookPort): "webhook-server", 8443: "metrics", 8081: "health"}
	if options.MetricsAddress != ":8443" || options.ProbeAddress != ":8081" {
		t.Errorf("the manager serves metrics at %s and probes at %s", options.MetricsAddress, options.ProbeAddress)
	}
	for _, p := range manager.Ports {
		if open[p.ContainerPort] != p.Name {
			t.Errorf("the manager's port %v", p)
		}
	}
	network := the[*networkingv1.NetworkPolicy](t, have, "NetworkPolicy/berth-controller-manager")
	selects("the NetworkPolicy", network.Spec.PodSelector.MatchLabels)
	if len(network.Spec.Ingress) != 1 || len(network.Spec.Ingress[0].Ports) != len(open) {
		t.Errorf("the NetworkPolicy lets in %v", network.Spec.Ingress)
	}
	for _, p := range network.Spec.Ingress[0].Ports {
		if open[p.Port.IntVal] == "" || *p.Protocol != corev1.ProtocolTCP {
			t.Errorf("the NetworkPolicy lets in to %v", p)
		}
	}
	for name, target := range map[string]int32{options.WebhookService: int32(options.WebhookPort), "berth-controller-manager-metrics-service": 8443} {
		service := the[*corev1.Service](t, have, "Service/"+name)
		selects(name, service.Spec.Selector)
		if len(service.Spec.Ports) != 1 || service.Spec.Ports[0].TargetPort.IntVal != target {
			t.Errorf("the Service %s leads to %v", name, service.Spec.Ports)
		}
	}
	// The webhook configurations name it.
	if port := the[*corev1.Service](t, have, "Service/"+options.WebhookService).Spec.Ports[0].Port; port != 443 {
		t.Errorf("the API server finds no webhook at the Service's port %d", port)
	}
	if have["ClusterRole/"+options.OwnerClusterRole] == nil {
		t.Errorf("no ClusterRole %q owns the webhook configurations", options.OwnerClusterRole)
	}
}

func TestRightsAreLeast(t *testing.T) {
	for key, o := range manifests(t) {
		var rules []rbacv1.PolicyRule
		inNamespace := false
		switch o := o.(type) {
		case *rbacv1.Role:
			rules, inNamespace = o.Rules, true
		case *rbacv1.ClusterRole:
			rules = o.Rules
		}
		for _, r := range rules {
			if slices.Contains(slices.Concat(r.APIGroups, r.Resources, r.Verbs, r.NonResourceURLs), "*") {
				t.Errorf("%s has a wildcard: %v", key, r)
			}
			if slices.Contains(r.Resources, "secrets") && !inNamespace {
				t.Errorf("%s reads Secrets of all namespaces: %v", key, r)
			}
			// Those that Berth makes have no name to go by before; those that policies name for engines are read, one by one.
			unnamed := map[string][]string{"berth-own-namespace-role": {"create"}, "berth-engine-secrets-role": {"get"}}
			if slices.Contains(r.Resources, "secrets") && len(r.ResourceNames) == 0 && !slices.Equal(r.Verbs, unnamed[o.GetName()]) {
				t.Errorf("%s may %s every Secret of its namespace", key, r.Verbs)
			}
			for _, verb := range []string{"escalate", "bind", "impersonate"} {
				if slices.Contains(r.Verbs, verb) {
					t.Errorf("%s may %s: %v", key, verb, r)
				}
			}
		}
	}
	// Cluster-wide, the manager itself writes its own status, Events, its own webhook configurations, and policy reports.
	for _, r := range the[*rbacv1.ClusterRole](t, manifests(t), "ClusterRole/berth-manager-role").Rules {
		for _, verb := range r.Verbs {
			switch {
			case slices.Contains([]string{"get", "list", "watch"}, verb):
			case slices.Equal(r.APIGroups, []string{"admissionregistration.k8s.io"}) && (verb == "create" || len(r.ResourceNames) > 0):
			case slices.Equal(r.APIGroups, []string{"events.k8s.io"}):
			case slices.Equal(r.APIGroups, []string{"openreports.io"}), slices.Equal(r.APIGroups, []string{"wgpolicyk8s.io"}):
			case slices.Equal(r.APIGroups, []string{"placement.berth.dev"}) && !slices.ContainsFunc(r.Resources, func(s string) bool { return !strings.HasSuffix(s, "/status") }):
			default:
				t.Errorf("the manager may %s %v", verb, r)
			}
		}
	}
}

// foreign are the metrics of others that alerts and dashboard ask for, with their labels. Those of the libraries are held
// against the libraries in hack/metricsdoc.
var foreign = map[string][]string{
	"leader_election_master_status":               {"name"},
	"apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type", "rejection_code"},
	"controller_runtime_reconcile_errors_total":   {"controller"},
	"rest_client_requests_total":                  {"code", "method", "host"},
	"workqueue_depth":                             {"name", "controller", "priority"},
}

// checkExpression checks that the metrics, labels and values of labels exist that an expression asks for. It returns the
// labels that the expression groups by.
func checkExpression(t *testing.T, where, expression string) (asked []string) {
	t.Helper()
	labels := maps.Clone(foreign)
	values := map[string][]string{}
	for _, m := range metrics.All() {
		labels[m.Name] = nil
		for _, l := range m.Labels {
			labels[m.Name] = append(labels[m.Name], l.Name)
			values[m.Name+"."+l.Name] = l.Values
		}
		if m.Type == metrics.Histogram {
			labels[m.Name+"_bucket"] = append(slices.Clone(labels[m.Name]), "le")
			labels[m.Name+"_count"], labels[m.Name+"_sum"] = labels[m.Name], labels[m.Name]
			for _, l := range m.Labels {
				values[m.Name+"_bucket."+l.Name], values[m.Name+"_count."+l.Name] = l.Values, l.Values
			}
			delete(labels, m.Name)
		}
	}
	// What Prometheus adds to each series.
	known := []string{"instance"}
	grouping := regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`)
	rest := grouping.ReplaceAllString(expression, "")
	found := false
	for _, selector := range regexp.MustCompile(`([a-z]+(?:_[a-z]+)+)\b(\(?)(?:\{([^}]*)\})?`).FindAllStringSubmatch(strings.ReplaceAll(rest, "$__rate_interval", ""), -1) {
		name := selector[1]
		if selector[2] != "" {
			// A function.
			continue
		}
		has, ok := labels[name]
		if !ok {
			t.Errorf("%s asks for %s, which nobody has", where, name)
			continue
		}
		found = true
		known = append(known, has...)
		for _, matcher := range regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`).FindAllStringSubmatch(selector[3], -1) {
			if !slices.Contains(has, matcher[1]) {
				t.Errorf("%s asks for the label %s of %s, which has %v", where, matcher[1], name, has)
			}
			if closed := values[name+"."+matcher[1]]; matcher[2] == "=" && len(closed) > 0 && !slices.Contains(closed, matcher[3]) {
				t.Errorf("%s asks for %s of %s, which is one of %v", where, matcher[0], name, closed)
			}
		}
	}
	if !found {
		t.Errorf("%s asks for no metric: %s", where, expression)
	}
	for _, group := range grouping.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			label = strings.TrimSpace(label)
			if !slices.Contains(known, label) {
				t.Errorf("%s groups by %s, which none of its metrics has", where, label)
			}
			asked = append(asked, label)
		}
	}
	return asked
}

// checkText finds the labels that a legend or an annotation shows.
func checkText(t *testing.T, where, text string, asked []string) {
	t.Helper()
	for _, shown := range regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(asked, shown[1]) {
			t.Errorf("%s shows %s, of which its expression leaves nothing", where, shown[1])
		}
	}
}

func TestAlertsAndDashboardAskForWhatThereIs(t *testing.T) {
	text, err := kustomize("config/prometheus")
	for _, group := range the[*prometheusRule](t, rendered(t, text, err), "PrometheusRule/berth-controller-manager").Spec.Groups {
		names := map[string]bool{}
		for _, rule := range group.Rules {
			asked := checkExpression(t, "the alert "+rule.Alert, rule.Expr)
			for _, annotation := range rule.Annotations {
				checkText(t, "the alert "+rule.Alert, annotation, asked)
			}
			if names[rule.Alert] || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("the alert %s is there twice, or does not say what it means", rule.Alert)
			}
			names[rule.Alert] = true
		}
	}

	text, err = kustomize("config/grafana")
	dashboards := the[*corev1.ConfigMap](t, rendered(t, text, err), "ConfigMap/berth-dashboard").Data
	if len(dashboards) != 2 {
		t.Errorf("%d dashboards", len(dashboards))
	}
	for file, dashboard := range dashboards {
		t.Run(file, func(t *testing.T) { checkDashboard(t, dashboard) })
	}
}

// checkDashboard checks that a dashboard asks for metrics that there are, and that its panels are complete and do not overlap.
func checkDashboard(t *testing.T, dashboard string) {
	t.Helper()
	var have struct {
		UID    string `json:"uid"`
		Title  string `json:"title"`
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			Type    string `json:"type"`
			GridPos struct {
				H, W, X, Y int
			} `json:"gridPos"`
			Targets []struct {
				RefID  string `json:"refId"`
				Expr   string `json:"expr"`
				Legend string `json:"legendFormat"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := yaml.Unmarshal([]byte(dashboard), &have); err != nil || have.UID == "" || have.Title == "" || len(have.Panels) == 0 {
		t.Fatalf("the dashboard %+v: %v", have, err)
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range have.Panels {
		if ids[p.ID] || p.Title == "" || p.Type == "" {
			t.Errorf("panel %d %q of type %q", p.ID, p.Title, p.Type)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			checkText(t, "the panel "+p.Title, target.Legend, checkExpression(t, "the panel "+p.Title, target.Expr))
		}
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W*p.GridPos.H == 0 {
			t.Errorf("the panel %s is at %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if cells[cell] != "" {
					t.Fatalf("the panels %s and %s overlap", cells[cell], p.Title)
				}
				cells[cell] = p.Title
			}
		}
	}
}
