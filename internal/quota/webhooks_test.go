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

package quota_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
)

func scopedQuota(namespace, name string, mode placementv1.Mode, hard ...string) placementv1.ScopedQuota {
	q := placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	q.Spec.Mode, q.Spec.Hard = mode, corev1.ResourceList{}
	for _, name := range hard {
		q.Spec.Hard[corev1.ResourceName(name)] = quotatest.Amounts("x", "1")["x"]
	}
	return q
}

func clusterQuota(name string, mode placementv1.Mode, selector *placementv1.NamespaceSelector, hard ...string) placementv1.ClusterScopedQuota {
	q := placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: name}}
	q.Spec.QuotaSpec = scopedQuota("", "", mode, hard...).Spec.QuotaSpec
	q.Spec.NamespaceSelector = selector
	return q
}

func limitOn(name, group, resource string, selector *placementv1.NamespaceSelector) placementv1.LimitedResource {
	l := placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	l.Spec.APIGroup, l.Spec.Resource, l.Spec.NamespaceSelector = group, resource, selector
	return l
}

const ownNamespace = "berth-system"

// hooks summarizes webhooks: it returns a line for each, with the objects that need it.
func hooks(all []quota.Webhook) map[string][]string {
	out := map[string][]string{}
	for _, w := range all {
		var rules []string
		for _, r := range w.Webhook.Rules {
			operations := strings.ToLower(fmt.Sprint(r.Operations))
			rules = append(rules, fmt.Sprintf("%s %s/%s %s", operations, r.APIGroups[0], r.APIVersions[0], strings.Join(r.Resources, ",")))
		}
		var owners []string
		for _, k := range w.Objects {
			owners = append(owners, strings.Trim(k.Namespace+"/"+k.Name, "/"))
		}
		for _, c := range w.Webhook.MatchConditions {
			rules = append(rules, "if "+strings.TrimSuffix(c.Name, ".placement.berth.dev"))
		}
		out[fmt.Sprintf("%s, %s, %s", *w.Webhook.FailurePolicy, metav1.FormatLabelSelector(w.Webhook.NamespaceSelector), strings.Join(owners, " "))] = rules
	}
	return out
}

func TestWebhooks(t *testing.T) {
	const (
		enforce, warn, dry = placementv1.ModeEnforce, placementv1.ModeWarn, placementv1.ModeDryRun
		everywhereElse     = "kubernetes.io/metadata.name notin (berth-system,kube-system)"
	)
	prod := &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"env": "prod"}}
	tests := map[string]struct {
		scoped  []placementv1.ScopedQuota
		cluster []placementv1.ClusterScopedQuota
		limits  []placementv1.LimitedResource
		want    map[string][]string
	}{
		"nothing": {},
		"types": {scoped: []placementv1.ScopedQuota{scopedQuota("a", "q", enforce, "pods", "services", "requests.storage", "configmaps", "count/deployments.apps", "count/jobs.batch", "count/widgets.example.com", "count/secrets")}, want: map[string][]string{
			"Fail, kubernetes.io/metadata.name in (a), a/q": {
				"[create update] /v1 persistentvolumeclaims", "[create update] /v1 pods", "[update] /v1 pods/resize", "[create update] /v1 services",
				"[create] /* configmaps,secrets", "[create] apps/* deployments", "[create] batch/* jobs", "[create] example.com/* widgets",
				"if pod-changes-usage", "if claim-changes-usage", "if service-changes-usage",
			},
		}},
		"devices": {scoped: []placementv1.ScopedQuota{scopedQuota("a", "q", enforce, "requests.nvidia.com/gpu"), scopedQuota("b", "q", enforce, "other.deviceclass.resource.k8s.io/devices"), scopedQuota("c", "q", enforce, "requests.amd.com/gpu")}, want: map[string][]string{
			"Fail, kubernetes.io/metadata.name in (a), a/q": {
				"[create update] /v1 pods", "[update] /v1 pods/resize", "[create update] resource.k8s.io/v1 resourceclaims", "if pod-changes-usage", "if device-claim-changes-usage",
			},
			"Fail, kubernetes.io/metadata.name in (b), b/q": {"[create update] resource.k8s.io/v1 resourceclaims", "if device-claim-changes-usage"},
			"Fail, kubernetes.io/metadata.name in (c), c/q": {"[create update] /v1 pods", "[update] /v1 pods/resize", "if pod-changes-usage"},
		}},
		"nothing is counted": {scoped: []placementv1.ScopedQuota{scopedQuota("a", "q", enforce, "nvidia.com/gpu"), scopedQuota("b", "empty", enforce)}},
		"quotas of a namespace that deny have one webhook, the others another": {
			scoped: []placementv1.ScopedQuota{scopedQuota("a", "q", warn, "services"), scopedQuota("a", "r", "", "configmaps"), scopedQuota("a", "s", dry, "services")},
			want: map[string][]string{
				"Fail, kubernetes.io/metadata.name in (a), a/r":       {"[create] /* configmaps"},
				"Ignore, kubernetes.io/metadata.name in (a), a/q a/s": {"[create update] /v1 services", "if service-changes-usage"},
			},
		},
		"only who denies may stop a request": {
			scoped:  []placementv1.ScopedQuota{scopedQuota("a", "q", warn, "services"), scopedQuota("a", "r", dry, "services")},
			cluster: []placementv1.ClusterScopedQuota{clusterQuota("w", warn, prod, "services"), clusterQuota("d", dry, nil, "services")},
			want: map[string][]string{
				"Ignore, kubernetes.io/metadata.name in (a), a/q a/r": {"[create update] /v1 services", "if service-changes-usage"},
				"Ignore, env=prod," + everywhereElse + ", w":          {"[create update] /v1 services", "if service-changes-usage"},
				"Ignore, " + everywhereElse + ", d":                   {"[create update] /v1 services", "if service-changes-usage"},
			},
		},
		"namespaces with the same types share a webhook": {
			scoped: []placementv1.ScopedQuota{scopedQuota("b", "q", enforce, "services"), scopedQuota("a", "q", enforce, "services.nodeports"), scopedQuota("c", "q", enforce, "secrets"), scopedQuota("d", "q", warn, "services")},
			want: map[string][]string{
				"Fail, kubernetes.io/metadata.name in (a,b), a/q b/q": {"[create update] /v1 services", "if service-changes-usage"},
				"Fail, kubernetes.io/metadata.name in (c), c/q":       {"[create] /* secrets"},
				"Ignore, kubernetes.io/metadata.name in (d), d/q":     {"[create update] /v1 services", "if service-changes-usage"},
			},
		},
		"kube-system never waits, Berth's own is not asked about": {
			scoped: []placementv1.ScopedQuota{scopedQuota("kube-system", "q", enforce, "services"), scopedQuota(ownNamespace, "q", enforce, "services")},
			want:   map[string][]string{"Ignore, kubernetes.io/metadata.name in (kube-system), kube-system/q": {"[create update] /v1 services", "if service-changes-usage"}},
		},
		"equal selectors share a webhook, quotas and limits alike": {
			cluster: []placementv1.ClusterScopedQuota{clusterQuota("one", enforce, prod, "services"), clusterQuota("two", "", prod, "secrets"), clusterQuota("all", enforce, nil, "services")},
			limits:  []placementv1.LimitedResource{limitOn("pods", "", "pods", prod), limitOn("widgets", "example.com", "widgets", &placementv1.NamespaceSelector{})},
			want: map[string][]string{
				"Fail, env=prod," + everywhereElse + ", one two pods": {"[create update] /v1 pods", "[update] /v1 pods/resize", "[create update] /v1 services", "[create] /* secrets", "if pod-changes-usage", "if service-changes-usage"},
				"Fail, " + everywhereElse + ", all widgets":           {"[create update] /v1 services", "[create] example.com/* widgets", "if service-changes-usage"},
			},
		},
		"what is never matched is not limited": {limits: []placementv1.LimitedResource{limitOn("l", "coordination.k8s.io", "leases", nil), limitOn("e", "", "events", nil)}},
	}
	e := quota.NewEvaluators(newMeter().clock, devices())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			all := e.Webhooks(test.scoped, test.cluster, test.limits, ownNamespace)
			if test.want == nil {
				test.want = map[string][]string{}
			}
			if diff := cmp.Diff(test.want, hooks(all)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, w := range all {
				if *w.Webhook.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun || *w.Webhook.MatchPolicy != admissionregistrationv1.Equivalent || w.Webhook.ObjectSelector == nil {
					t.Errorf("%+v", w.Webhook)
				}
				for _, r := range w.Webhook.Rules {
					if *r.Scope != admissionregistrationv1.NamespacedScope {
						t.Errorf("scope %s of %v", *r.Scope, r.Resources)
					}
				}
			}
			// The result must not depend on the order of the objects.
			want := all
			for range 5 {
				shuffle(test.scoped)
				shuffle(test.cluster)
				shuffle(test.limits)
				if diff := cmp.Diff(want, e.Webhooks(test.scoped, test.cluster, test.limits, ownNamespace)); diff != "" {
					t.Fatalf("in another order -want +got:\n%s", diff)
				}
			}
		})
	}
}

func shuffle[T any](s []T) { rand.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] }) }

// TestWebhookNames checks that a change of what one quota counts does not rename the webhooks of others.
func TestWebhookNames(t *testing.T) {
	e := quota.NewEvaluators(newMeter().clock, quota.Devices{})
	names := func(q ...placementv1.ScopedQuota) []string {
		var out []string
		for _, w := range e.Webhooks(q, nil, nil, ownNamespace) {
			out = append(out, w.Webhook.Name)
		}
		return out
	}
	few := names(scopedQuota("a", "q", "", "services"))
	more := names(scopedQuota("a", "q", "", "services"), scopedQuota("b", "q", "", "services"), scopedQuota("c", "q", "", "secrets"))
	if len(few) != 1 || len(more) != 2 || !slices.Contains(more, few[0]) || !strings.HasSuffix(few[0], ".placement.berth.dev") {
		t.Errorf("%v, %v", few, more)
	}
}

// TestWebhookNamespaces checks that a webhook selects exactly the namespaces that its quota counts.
func TestWebhookNamespaces(t *testing.T) {
	e := quota.NewEvaluators(newMeter().clock, quota.Devices{})
	selector := &placementv1.NamespaceSelector{MatchExpressions: []placementv1.NamespaceRequirement{{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []placementv1.LabelValue{"prod"}}}}
	w := e.Webhooks(nil, []placementv1.ClusterScopedQuota{clusterQuota("q", "", selector, "pods")}, nil, ownNamespace)[0].Webhook
	parsed, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]bool{"shop": true, "kube-system": false, ownNamespace: false} {
		if got := parsed.Matches(labels.Set{"env": "prod", corev1.LabelMetadataName: namespace}); got != want {
			t.Errorf("%s: %v, want %v", namespace, got, want)
		}
	}
	if parsed.Matches(labels.Set{"env": "dev", corev1.LabelMetadataName: "dev"}) {
		t.Error("a namespace that is not selected is asked about")
	}
}

// TestMatchConditions checks that the conditions exclude updates that change no usage, and pods whose class no quota
// counts.
func TestMatchConditions(t *testing.T) {
	e := quota.NewEvaluators(newMeter().clock, quota.Devices{})
	of := func(class *placementv1.ScopeRequirement) *match.Matcher {
		q := scopedQuota("a", "q", "", "pods", "services", "requests.storage")
		if class != nil {
			q.Spec.ScopeSelector = &placementv1.ScopeSelector{MatchExpressions: []placementv1.ScopeRequirement{*class}}
		}
		conditions := e.Webhooks([]placementv1.ScopedQuota{q}, nil, nil, ownNamespace)[0].Webhook.MatchConditions
		matcher, errs := match.New(placementv1.Match{
			MatchConditions: conditions,
			ResourceRules:   []placementv1.ResourceRule{{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}},
		}, field.NewPath("match"))
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		return matcher
	}
	class := func(operator corev1.ScopeSelectorOperator, values ...string) *placementv1.ScopeRequirement {
		return &placementv1.ScopeRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: operator, Values: values}
	}
	type spec = map[string]any
	const in, notIn, exists, doesNotExist = corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist
	storage := func(amount string) spec { return spec{"resources": spec{"requests": spec{"storage": amount}}} }
	ports := func(n ...any) spec { return spec{"type": "NodePort", "ports": n} }
	tests := map[string]struct {
		class                 *placementv1.ScopeRequirement
		resource, subresource string
		// old is nil for a create request.
		spec, old spec
		want      bool
	}{
		"pod, created":                    {resource: "pods", spec: spec{}, want: true},
		"pod, nothing changes":            {resource: "pods", spec: spec{"nodeName": "n"}, old: spec{}, want: false},
		"pod becomes terminating":         {resource: "pods", spec: spec{"activeDeadlineSeconds": int64(30)}, old: spec{}, want: true},
		"pod is terminating no more":      {resource: "pods", spec: spec{}, old: spec{"activeDeadlineSeconds": int64(30)}, want: true},
		"pod is terminating, and sooner":  {resource: "pods", spec: spec{"activeDeadlineSeconds": int64(10)}, old: spec{"activeDeadlineSeconds": int64(30)}, want: false},
		"pod is resized":                  {resource: "pods", subresource: "resize", spec: spec{}, old: spec{}, want: true},
		"class in":                        {class: class(in, "low", "high"), resource: "pods", spec: spec{"priorityClassName": "high"}, want: true},
		"class in others":                 {class: class(in, "low", "high"), resource: "pods", spec: spec{"priorityClassName": "x"}, want: false},
		"class in, none":                  {class: class(in, "low"), resource: "pods", spec: spec{}, want: false},
		"class not in":                    {class: class(notIn, "low"), resource: "pods", spec: spec{"priorityClassName": "high"}, want: true},
		"class not in, none":              {class: class(notIn, "low"), resource: "pods", spec: spec{}, want: true},
		"class not in, but it is":         {class: class(notIn, "low"), resource: "pods", spec: spec{"priorityClassName": "low"}, want: false},
		"class not in, an empty one too":  {class: class(notIn, "", "low"), resource: "pods", spec: spec{}, want: true},
		"class not in the empty one":      {class: class(notIn, ""), resource: "pods", spec: spec{"priorityClassName": "low"}, want: true},
		"class in the empty one":          {class: class(in, ""), resource: "pods", spec: spec{}, want: false},
		"class exists":                    {class: class(exists), resource: "pods", spec: spec{"priorityClassName": "low"}, want: true},
		"class exists, none":              {class: class(exists), resource: "pods", spec: spec{}, want: false},
		"class does not exist":            {class: class(doesNotExist), resource: "pods", spec: spec{}, want: true},
		"class does not exist, one":       {class: class(doesNotExist), resource: "pods", spec: spec{"priorityClassName": "low"}, want: false},
		"class of a service":              {class: class(in, "low"), resource: "services", spec: spec{}, want: true},
		"service, created":                {resource: "services", spec: spec{}, want: true},
		"service, nothing changes":        {resource: "services", spec: ports(spec{"port": int64(1)}), old: ports(spec{"port": int64(1)}), want: false},
		"service gets a port":             {resource: "services", spec: ports(spec{"port": int64(1)}, spec{"port": int64(2)}), old: ports(spec{"port": int64(1)}), want: true},
		"service changes type":            {resource: "services", spec: spec{"type": "LoadBalancer"}, old: spec{"type": "NodePort"}, want: true},
		"service gets its type":           {resource: "services", spec: spec{"type": "LoadBalancer"}, old: spec{}, want: true},
		"service allocates no node ports": {resource: "services", spec: spec{"allocateLoadBalancerNodePorts": false}, old: spec{}, want: true},
		"claim, created":                  {resource: "persistentvolumeclaims", spec: storage("1Gi"), want: true},
		"claim, nothing changes":          {resource: "persistentvolumeclaims", spec: storage("1Gi"), old: storage("1Gi"), want: false},
		"claim grows":                     {resource: "persistentvolumeclaims", spec: storage("2Gi"), old: storage("1Gi"), want: true},
		"claim has no size":               {resource: "persistentvolumeclaims", spec: spec{}, old: spec{}, want: false},
		"claim gets its class":            {resource: "persistentvolumeclaims", spec: spec{"storageClassName": "gold"}, old: spec{}, want: true},
		"claim changes attributes":        {resource: "persistentvolumeclaims", spec: spec{"volumeAttributesClassName": "b"}, old: spec{"volumeAttributesClassName": "a"}, want: true},
		"what is counted, created":        {resource: "configmaps", spec: spec{}, want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			content := func(s spec) *unstructured.Unstructured {
				return &unstructured.Unstructured{Object: spec{"apiVersion": "v1", "kind": "X", "metadata": spec{"name": "x", "namespace": "a"}, "spec": s}}
			}
			resource := schema.GroupVersionResource{Version: "v1", Resource: test.resource}
			asked := match.Object{
				Resource: resource, Namespace: "a", Content: content(test.spec),
				Request: &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Resource: metav1.GroupVersionResource(resource), SubResource: test.subresource},
			}
			if test.old != nil {
				asked.Old, asked.Request.Operation = content(test.old), admissionv1.Update
			}
			if got, err := of(test.class).Matches(t.Context(), asked); err != nil || got != test.want {
				t.Errorf("%v %v, want %v", got, err, test.want)
			}
		})
	}
}

// TestWebhooksStaySmall checks that the configuration can always be stored, whatever the number and size of the specs.
// If it would become too large, the webhooks cover more requests than needed.
func TestWebhooksStaySmall(t *testing.T) {
	const limit = 512 << 10
	e := quota.NewEvaluators(newMeter().clock, quota.Devices{})
	var values []string
	for i := range 64 {
		values = append(values, fmt.Sprintf("class-%056d", i))
	}
	var scoped []placementv1.ScopedQuota
	var cluster []placementv1.ClusterScopedQuota
	for i := range 300 {
		q := scopedQuota(fmt.Sprintf("team-%d", i), "q", "", "pods", fmt.Sprintf("count/widgets.group-%d.example.com", i))
		q.Spec.ScopeSelector = &placementv1.ScopeSelector{}
		for range 16 {
			q.Spec.ScopeSelector.MatchExpressions = append(q.Spec.ScopeSelector.MatchExpressions, placementv1.ScopeRequirement{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: values,
			})
		}
		scoped = append(scoped, q)
		of := clusterQuota(fmt.Sprintf("q-%d", i), "", &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"team": placementv1.LabelValue(fmt.Sprint(i))}}, "pods")
		of.Spec.ScopeSelector = q.Spec.ScopeSelector
		cluster = append(cluster, of)
	}
	all := e.Webhooks(scoped, cluster, nil, ownNamespace)
	text, err := json.Marshal(all)
	if err != nil || len(text) > limit {
		t.Errorf("%d webhooks take %d bytes, want at most %d; %v", len(all), len(text), limit, err)
	}
	owners := 0
	for _, w := range all {
		owners += len(w.Objects)
		if len(w.Webhook.MatchConditions) > 1 {
			t.Errorf("conditions %v", w.Webhook.MatchConditions)
		}
	}
	if owners != len(scoped)+len(cluster) {
		t.Errorf("webhooks for %d quotas, want %d", owners, len(scoped)+len(cluster))
	}
}

// TestMatchConditionsTogether checks that a shared webhook receives the pods that any of its quotas counts.
func TestMatchConditionsTogether(t *testing.T) {
	e := quota.NewEvaluators(newMeter().clock, quota.Devices{})
	low, high, all := scopedQuota("a", "low", "", "pods"), scopedQuota("a", "high", "", "pods"), scopedQuota("a", "all", "", "pods")
	counted := scopedQuota("a", "counted", "", "secrets")
	for q, name := range map[*placementv1.ScopedQuota]string{&low: "low", &high: "high"} {
		q.Spec.ScopeSelector = &placementv1.ScopeSelector{MatchExpressions: []placementv1.ScopeRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{name}},
		}}
	}
	for name, test := range map[string]struct {
		quotas []placementv1.ScopedQuota
		want   []string
	}{
		"either class": {quotas: []placementv1.ScopedQuota{low, high}, want: []string{`["low"]`, `["high"]`}},
		"all pods":     {quotas: []placementv1.ScopedQuota{low, all}},
		"other types":  {quotas: []placementv1.ScopedQuota{low, counted}, want: []string{`["low"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				var expression string
				for _, c := range e.Webhooks(test.quotas, nil, nil, ownNamespace)[0].Webhook.MatchConditions {
					if strings.HasPrefix(c.Name, "pod-is-counted") {
						expression = c.Expression
					}
				}
				for _, part := range test.want {
					if !strings.Contains(expression, part) {
						t.Errorf("%q is not in %q", part, expression)
					}
				}
				if len(test.want) == 0 && expression != "" {
					t.Errorf("%q", expression)
				}
				shuffle(test.quotas)
			}
		})
	}
}
