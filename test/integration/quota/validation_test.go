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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/budget"
)

var (
	resourceQuota      = corev1.SchemeGroupVersion.WithKind("ResourceQuota")
	scopedQuota        = placementv1.GroupVersion.WithKind("ScopedQuota")
	clusterScopedQuota = placementv1.GroupVersion.WithKind("ClusterScopedQuota")
	limitedResource    = placementv1.GroupVersion.WithKind("LimitedResource")
)

// The names that upstream's validation knows, and one that it does not.
var (
	scopes = []string{
		"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity", "VolumeAttributesClass", "Bogus",
	}
	operators = []string{"In", "NotIn", "Exists", "DoesNotExist", "Near"}
	standard  = []string{
		"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage",
		"limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers", "secrets",
		"persistentvolumeclaims", "configmaps", "services.nodeports", "services.loadbalancers", "hugepages-2Mi", "requests.hugepages-1Gi",
	}
	qualified = []string{
		"count/pods", "count/widgets.example.com", "requests.nvidia.com/gpu", "example.com/device", "kubernetes.io/thing",
		"gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
	}
	unknown = []string{"storage", "widgets", "Pods", "limits.storage", "hugepages-", "count/", "/pods", "a/b/c", "Example.com/a", "a..b/c", "a/-b"}
)

// verdict is what the API server makes of a request: refused or not, and which fields right below spec it blames. It
// blames none where it can't read the object at all.
type verdict struct {
	Refused bool
	Fields  []string
}

func (v verdict) String() string {
	if !v.Refused {
		return "accepted"
	}
	return fmt.Sprintf("refused for %v", v.Fields)
}

func verdictOf(err error) verdict {
	GinkgoHelper()
	if err == nil {
		return verdict{}
	}
	if apierrors.IsBadRequest(err) {
		return verdict{Refused: true}
	}
	out := verdict{Refused: true}
	for _, field := range blamed(err) {
		// What was not checked because of other mistakes has no path.
		if path := strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' }); len(path) > 0 && path[0] == "spec" {
			out.Fields = append(out.Fields, strings.Join(path[:min(len(path), 2)], "."))
		}
	}
	slices.Sort(out.Fields)
	out.Fields = slices.Compact(out.Fields)
	return out
}

// blamed returns the paths of the fields for which an object is invalid.
func blamed(err error) []string {
	GinkgoHelper()
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	var status apierrors.APIStatus
	Expect(errors.As(err, &status)).To(BeTrue())
	var out []string
	for _, cause := range status.Status().Details.Causes {
		out = append(out, cause.Field)
	}
	return out
}

// refused is the verdict that blames these fields.
func refused(fields ...string) verdict { return verdict{Refused: true, Fields: fields} }

var accepted = verdict{}

// unread is the verdict on what is no ResourceQuota at all.
var unread = verdict{Refused: true}

// newObject returns an object with a spec, which null leaves out.
func newObject(gvk schema.GroupVersionKind, namespace string, spec any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(gvk)
	out.SetGenerateName("spec-")
	out.SetNamespace(namespace)
	if spec != nil {
		out.Object["spec"] = spec
	}
	return out
}

// parse reads a spec in YAML.
func parse(spec string) any {
	GinkgoHelper()
	var out any
	Expect(yaml.Unmarshal([]byte(spec), &out)).To(Succeed())
	return out
}

// try creates the spec as a ResourceQuota and as a ScopedQuota in a dry run.
func try(ctx context.Context, namespace string, spec any) (upstream, ours verdict) {
	GinkgoHelper()
	dryRun := func(gvk schema.GroupVersionKind, namespace string) verdict {
		GinkgoHelper()
		return verdictOf(f.Client.Create(ctx, newObject(gvk, namespace, spec), client.DryRunAll))
	}
	upstream, ours = dryRun(resourceQuota, namespace), dryRun(scopedQuota, namespace)
	Expect(dryRun(clusterScopedQuota, "")).To(Equal(ours), "ClusterScopedQuota and ScopedQuota have the same rules: %v", spec)
	return upstream, ours
}

// difference says how the verdicts on a spec differ, and nothing if they don't: both accept it, or both refuse it and
// blame one field at least in common. Not all need be: some rules are not evaluated where others failed already, and a
// resource that upstream does not know goes with no scope either. Ours blames a field also where upstream could not
// read the object.
func difference(upstream, ours verdict) string {
	common := func(field string) bool { return slices.Contains(upstream.Fields, field) }
	switch {
	case !upstream.Refused && !ours.Refused:
		return ""
	case upstream.Refused && ours.Refused && slices.ContainsFunc(ours.Fields, common):
		return ""
	case upstream.Refused && len(upstream.Fields) == 0 && len(ours.Fields) > 0:
		return ""
	}
	return fmt.Sprintf("ResourceQuota %s, ScopedQuota %s", upstream, ours)
}

// tally compares the verdicts on many specs.
type tally struct {
	namespace         string
	differences       []string
	accepted, refused int
	// chosen returns whether a spec is tried; nil for all.
	chosen func() bool
}

// sampled returns a function that chooses each spec with a probability of one third, or all specs if the budget is large.
func sampled() func() bool {
	r := rand.New(rand.NewPCG(3, uint64(GinkgoRandomSeed())))
	return func() bool { return r.IntN(budget.Size(3, 1)) == 0 }
}

func (t *tally) try(ctx context.Context, spec any) {
	GinkgoHelper()
	if t.chosen != nil && !t.chosen() {
		return
	}
	upstream, ours := try(ctx, t.namespace, spec)
	if upstream.Refused {
		t.refused++
	} else {
		t.accepted++
	}
	if d := difference(upstream, ours); d != "" {
		text, err := json.Marshal(spec)
		Expect(err).NotTo(HaveOccurred())
		t.differences = append(t.differences, fmt.Sprintf("%s: %s", text, d))
	}
}

// expect fails where a spec was judged differently, or where too few were accepted or refused for that to mean much.
func (t *tally) expect(atLeast int) {
	GinkgoHelper()
	AddReportEntry("verdicts", fmt.Sprintf("%d accepted, %d refused", t.accepted, t.refused))
	Expect(t.differences).To(BeEmpty())
	Expect(min(t.accepted, t.refused)).To(BeNumerically(">=", atLeast), "%d accepted, %d refused", t.accepted, t.refused)
}

func hardOf(amount string, names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		out[name] = amount
	}
	return out
}

func selectorOf(requirements ...any) map[string]any {
	return map[string]any{"matchExpressions": requirements}
}

func requirement(scope, operator string, values ...any) map[string]any {
	out := map[string]any{"scopeName": scope, "operator": operator}
	if len(values) > 0 {
		out["values"] = values
	}
	return out
}

var _ = Describe("A spec as ScopedQuota is judged as it is as ResourceQuota", Label("versions"), func() {
	It("for every scope, operator and values", func(ctx SpecContext) {
		t := tally{namespace: f.NewNamespace(ctx, nil)}
		for _, scope := range scopes {
			for _, operator := range operators {
				for _, values := range [][]any{nil, {"high"}, {"high", "low"}, {""}} {
					t.try(ctx, map[string]any{"scopeSelector": selectorOf(requirement(scope, operator, values...))})
				}
			}
			t.try(ctx, map[string]any{"scopeSelector": selectorOf(map[string]any{"scopeName": scope})})
		}
		t.expect(10)
	})

	It("for every two scopes, also where one comes twice", func(ctx SpecContext) {
		t := tally{namespace: f.NewNamespace(ctx, nil)}
		for _, a := range scopes {
			for _, b := range scopes {
				t.try(ctx, map[string]any{"scopes": []any{a, b}})
				t.try(ctx, map[string]any{"scopeSelector": selectorOf(requirement(a, "Exists"), requirement(b, "Exists"))})
				t.try(ctx, map[string]any{"scopes": []any{a}, "scopeSelector": selectorOf(requirement(b, "Exists"))})
			}
		}
		t.expect(40)
	})

	It("for every scope and resource", func(ctx SpecContext) {
		t := tally{namespace: f.NewNamespace(ctx, nil), chosen: sampled()}
		for _, scope := range scopes {
			for _, name := range slices.Concat(standard, qualified, unknown) {
				hard := hardOf("1", name)
				t.try(ctx, map[string]any{"hard": hard, "scopes": []any{scope}})
				t.try(ctx, map[string]any{"hard": hard, "scopeSelector": selectorOf(requirement(scope, "Exists"))})
			}
		}
		t.expect(budget.Size(25, 100))
	})

	It("for every resource and amount", func(ctx SpecContext) {
		t := tally{namespace: f.NewNamespace(ctx, nil), chosen: sampled()}
		for _, name := range slices.Concat(standard, qualified) {
			for _, amount := range amounts {
				t.try(ctx, map[string]any{"hard": map[string]any{name: amount}})
			}
		}
		t.expect(budget.Size(25, 100))
	})

	It("for specs made at random", func(ctx SpecContext) {
		t := tally{namespace: f.NewNamespace(ctx, nil)}
		r := rand.New(rand.NewPCG(1712, 2017))
		for range 300 {
			t.try(ctx, randomSpec(r))
		}
		t.expect(80)
	})

	DescribeTable("and the verdict is",
		func(ctx SpecContext, spec string, want verdict) {
			if strings.Contains(spec, "VolumeAttributesClass") {
				f.SkipUnlessServed("storage.k8s.io/v1", "volumeattributesclasses", "ResourceQuotas have the scope from 1.34 on, see docs/install.md")
			}
			upstream, ours := try(ctx, f.NewNamespace(ctx, nil), parse(spec))
			Expect(upstream).To(Equal(want), "ResourceQuota")
			if len(want.Fields) == 0 {
				Expect(difference(upstream, ours)).To(BeEmpty())
			} else {
				Expect(ours).To(Equal(want), "ScopedQuota")
			}
		},
		Entry("nothing", `{}`, accepted),
		Entry("nothing, said with nulls", `{hard: null, scopes: null, scopeSelector: null}`, accepted),
		Entry("nothing, said at length", `{hard: {}, scopes: [], scopeSelector: {matchExpressions: []}}`, accepted),
		Entry("no expressions", `{scopeSelector: {}}`, accepted),
		Entry("the seed's first story", `{hard: {pods: "10"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [cluster-services]}]}}`, accepted),
		Entry("a PriorityClass that does not exist", `{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [no-such-class]}]}}`, accepted),
		Entry("both scopes and a selector", `{hard: {pods: "1"}, scopes: [NotTerminating], scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}}`, accepted),

		Entry("names of all sorts", `{hard: {pods: 1, requests.nvidia.com/gpu: 4, count/widgets.example.com: 5, gold.storageclass.storage.k8s.io/requests.storage: 1Ti, hugepages-2Mi: 1Gi}}`, accepted),
		Entry("a name that is not for quota", `{hard: {storage: 1Gi}}`, refused("spec.hard")),
		Entry("a name without group", `{hard: {widgets: "1"}}`, refused("spec.hard")),
		Entry("an empty name", `{hard: {"": "1"}}`, refused("spec.hard")),
		Entry("huge pages of no size", `{hard: {hugepages-: "1"}}`, refused("spec.hard")),
		Entry("huge pages of a long size", `{hard: {hugepages-`+strings.Repeat("2", 53)+`: "1"}}`, accepted),
		Entry("huge pages of too long a size", `{hard: {hugepages-`+strings.Repeat("2", 54)+`: "1"}}`, refused("spec.hard")),
		Entry("a long name", `{hard: {`+strings.Repeat("a", 253)+`/`+strings.Repeat("b", 63)+`: "1"}}`, accepted),
		Entry("too long a group", `{hard: {`+strings.Repeat("a", 254)+`/b: "1"}}`, refused("spec.hard")),
		Entry("too long a name", `{hard: {a/`+strings.Repeat("b", 64)+`: "1"}}`, refused("spec.hard")),
		Entry("a group that is no domain", `{hard: {Example.com/gpu: "1"}}`, refused("spec.hard")),
		Entry("two slashes", `{hard: {a/b/c: "1"}}`, refused("spec.hard")),

		Entry("zero", `{hard: {pods: 0, cpu: "0", memory: "-0"}}`, accepted),
		Entry("a negative number", `{hard: {pods: -1}}`, refused("spec.hard")),
		Entry("a negative amount", `{hard: {cpu: -100m}}`, refused("spec.hard")),
		Entry("hardly a negative amount", `{hard: {cpu: -1n}}`, refused("spec.hard")),
		Entry("half a pod", `{hard: {pods: 500m}}`, refused("spec.hard")),
		Entry("hardly a pod", `{hard: {pods: 1n}}`, refused("spec.hard")),
		Entry("a pod in thousandths", `{hard: {pods: 1000m}}`, accepted),
		Entry("half a CPU", `{hard: {requests.cpu: 500m, limits.cpu: "0.5"}}`, accepted),
		Entry("half a GPU", `{hard: {example.com/gpu: 500m}}`, refused("spec.hard")),
		Entry("half of what is requested of a GPU", `{hard: {requests.example.com/gpu: 500m}}`, accepted),
		Entry("half a widget", `{hard: {count/widgets.example.com: "0.5"}}`, refused("spec.hard")),
		Entry("one and a half gibibytes of a class", `{hard: {gold.storageclass.storage.k8s.io/requests.storage: 1.5Gi}}`, accepted),
		Entry("one and a half bytes of a class", `{hard: {gold.storageclass.storage.k8s.io/requests.storage: "1.5"}}`, refused("spec.hard")),
		Entry("half of Kubernetes' own", `{hard: {kubernetes.io/thing: "0.5"}}`, accepted),
		Entry("as much as an integer holds", `{hard: {pods: "9223372036854775807"}}`, accepted),
		Entry("more than an integer holds", `{hard: {pods: 16Ei, memory: 10E}}`, accepted),
		Entry("no amount", `{hard: {pods: ""}}`, unread),
		Entry("no such unit", `{hard: {memory: 1gb}}`, unread),
		Entry("a broken exponent", `{hard: {requests.cpu: 1e1.5}}`, unread),
		Entry("an exponent beyond all bounds", `{hard: {requests.cpu: "1e99999999999999999999"}}`, unread),
		Entry("a truth for an amount", `{hard: {pods: true}}`, unread),
		Entry("a list for amounts", `{hard: [pods]}`, unread),

		Entry("best effort and not", `{scopes: [BestEffort, NotBestEffort]}`, refused("spec.scopes")),
		Entry("terminating and not", `{scopeSelector: {matchExpressions: [{scopeName: Terminating, operator: Exists}, {scopeName: NotTerminating, operator: Exists}]}}`, refused("spec.scopeSelector")),
		Entry("best effort in one and not in the other", `{scopes: [BestEffort], scopeSelector: {matchExpressions: [{scopeName: NotBestEffort, operator: Exists}]}}`, accepted),
		Entry("In and NotIn the same", `{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [a]}, {scopeName: PriorityClass, operator: NotIn, values: [a]}]}}`, accepted),
		Entry("memory of what has no requests", `{hard: {requests.memory: 1Gi}, scopes: [BestEffort]}`, refused("spec.scopes")),
		Entry("services of a class of pods", `{hard: {services: "1"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}}`, refused("spec.scopeSelector")),
		Entry("ephemeral storage of a class of pods", `{hard: {requests.ephemeral-storage: 1Gi}, scopes: [PriorityClass]}`, refused("spec.scopes")),
		Entry("claims of a class of volumes", `{hard: {persistentvolumeclaims: "1", requests.storage: 1Gi}, scopes: [VolumeAttributesClass]}`, accepted),
		Entry("pods of a class of volumes", `{hard: {pods: "1"}, scopes: [VolumeAttributesClass]}`, refused("spec.scopes")),
		Entry("a qualified resource of a class of pods", `{hard: {requests.nvidia.com/gpu: "1", count/deployments.apps: "1"}, scopes: [PriorityClass]}`, accepted),
		Entry("a word for scopes", `{scopes: BestEffort}`, unread),
		Entry("as much as the bounds let", largest(), accepted),
	)

	// Each difference is there on purpose or can't be helped; its name says why.
	DescribeTable("but for",
		func(ctx SpecContext, spec string, upstream, ours verdict) {
			u, o := try(ctx, f.NewNamespace(ctx, nil), parse(spec))
			Expect(u).To(Equal(upstream), "ResourceQuota")
			Expect(o).To(Equal(ours), "ScopedQuota")
		},
		// Webhooks see what the schema accepts.
		Entry("what the webhook finds, as long as the schema finds something", `{hard: {services: "-1"}, scopes: [Terminating], scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}]}}`,
			refused("spec.hard", "spec.scopeSelector", "spec.scopes"), refused("spec.hard", "spec.scopeSelector")),
		Entry("no spec: it would be a quota of nothing, by mistake", `null`, accepted, refused("spec")),
		Entry("more than 30 resources: rules must be bounded", `{hard: {`+many(31, `count/r%02d: "1"`)+`}}`, accepted, refused("spec.hard")),
		Entry("more than 7 scopes: there are no more, so one is repeated", `{scopes: [`+many(8, `PriorityClass`)+`]}`, accepted, refused("spec.scopes")),
		Entry("more than 16 expressions: rules must be bounded",
			`{scopeSelector: {matchExpressions: [`+many(17, `{scopeName: PriorityClass, operator: Exists}`)+`]}}`, accepted, refused("spec.scopeSelector")),
		Entry("more than 64 values: rules must be bounded",
			`{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [`+many(65, `c%02d`)+`]}]}}`, accepted, refused("spec.scopeSelector")),
		Entry("a value that is no name: upstream stores it, and fails every request that the quota is for",
			`{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: ["not a name!"]}]}}`, accepted, refused("spec.scopeSelector")),
		Entry("a value of more than 63 characters: so too",
			`{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [`+strings.Repeat("a", 64)+`]}]}}`, accepted, refused("spec.scopeSelector")),
		Entry("a fraction without quotes: no custom resource can have one for a quantity", `{hard: {requests.cpu: 0.5}}`, accepted, refused("spec.hard")),
		Entry("a number of more than 64 bits without quotes: no custom resource can have one for a quantity", `{hard: {requests.cpu: 1e19}}`, accepted, refused("spec.hard")),
		Entry("an amount between spaces: no custom resource can have one for a quantity", `{hard: {requests.cpu: " 1"}}`, accepted, refused("spec.hard")),
		Entry("1e30 and more: calculating with it takes time and memory without bounds", `{hard: {requests.cpu: 1e999}}`, accepted, refused("spec.hard")),
		Entry("a whole number beyond 64 bits in thousandths: upstream overflows, and here and there takes what is left for a fraction",
			`{hard: {pods: "9300000000000000", services: "9999999999999999999"}}`, refused("spec.hard"), accepted),
		Entry("half of what has a group so long that no container could request it", `{hard: {`+strings.Repeat("a", 245)+`/b: "0.5"}}`, accepted, refused("spec.hard")),
		Entry("a qualified name that begins as huge pages do: upstream takes it for huge pages, which its evaluators never count",
			`{hard: {hugepages-2mi/foo: "1"}, scopes: [PriorityClass]}`, refused("spec.scopes"), accepted),
	)

	// Both accept it. An API server drops nulls from custom resources before any rule could see them.
	It("but for an amount of null, which is zero there and no limit here", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		stored := func(gvk schema.GroupVersionKind) any {
			GinkgoHelper()
			obj := newObject(gvk, namespace, parse(`{hard: {pods: null}}`))
			Expect(f.Client.Create(ctx, obj, client.DryRunAll)).To(Succeed())
			return obj.Object["spec"].(map[string]any)["hard"]
		}
		Expect(stored(resourceQuota)).To(Equal(map[string]any{"pods": "0"}))
		Expect(stored(scopedQuota)).To(Equal(map[string]any{}))
	})
})

// amounts are what the specs try for every resource: whole, fractional, negative and broken.
var amounts = []any{
	"0", "1", int64(3), "+5", "1k", "2Gi", "1e3", "1E3", "10e-1", "1000m", "2.0", "5.", "1.5k", "1.5Gi", "0.5Ki", "4503599627370497",
	"500m", "1.5", ".5", "1e-3", "100n", "0.3Ki", "1.0000000001", "1000001u",
	"-1", int64(-2), "-0", "-0.0", "-1n", "-1.5Gi", "-1e3",
	"", "abc", "1.2.3", "1K", "1ki", "1e1.5", "1e", "--1", "0x10",
}

// randomSpec makes up a spec. Most of it makes sense, so that mistakes come one at a time.
func randomSpec(r *rand.Rand) map[string]any {
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	out := map[string]any{}
	pool := [][]string{
		{"pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}, {"pods"},
		{"persistentvolumeclaims", "requests.storage"}, qualified, standard, slices.Concat(standard, qualified, unknown),
	}[r.IntN(6)]
	hard := map[string]any{}
	for range r.IntN(4) {
		hard[pick(pool)] = "10"
		if r.IntN(4) == 0 {
			hard[pick(pool)] = amounts[r.IntN(len(amounts))]
		}
	}
	if len(hard) > 0 || r.IntN(2) == 0 {
		out["hard"] = hard
	}
	known := scopes[:len(scopes)-1]
	if r.IntN(3) == 0 {
		list := []any{}
		for range r.IntN(4) {
			list = append(list, pick(known))
		}
		if r.IntN(10) == 0 {
			list = append(list, pick(scopes))
		}
		out["scopes"] = list
	}
	if r.IntN(2) == 0 {
		list := []any{}
		for range r.IntN(4) {
			scope, operator, values := pick(known), "Exists", []any(nil)
			if (scope == "PriorityClass" || scope == "VolumeAttributesClass") && r.IntN(2) == 0 {
				operator, values = pick([]string{"In", "NotIn"}), []any{"gold", "silver"}
			}
			if r.IntN(6) == 0 {
				operator = pick(operators)
			}
			if r.IntN(10) == 0 {
				values = []any{"gold"}[:r.IntN(2)]
			}
			list = append(list, requirement(scope, operator, values...))
		}
		out["scopeSelector"] = selectorOf(list...)
	}
	return out
}

// many repeats a text; a number in it counts.
func many(n int, format string) string {
	var out []string
	for i := range n {
		if strings.Contains(format, "%") {
			out = append(out, fmt.Sprintf(format, i))
		} else {
			out = append(out, format)
		}
	}
	return strings.Join(out, ", ")
}

// largest is a spec that is at every bound at once: evaluating the rules on it must not cost more than API servers allow.
func largest() string {
	label := strings.Repeat("a", 61)
	hard := many(30, strings.Repeat("d", 251)+`%02d/`+label+`00: "`+strings.Repeat("1", 18)+`Mi"`)
	values := many(64, label+`%02d`)
	return `{hard: {` + hard + `}, scopes: [` + many(7, `PriorityClass`) + `], scopeSelector: {matchExpressions: [` +
		many(16, `{scopeName: PriorityClass, operator: In, values: [`+values+`]}`) + `]}}`
}

var _ = Describe("A change of a spec is judged as that of a ResourceQuota", Label("versions"), func() {
	const (
		gold   = `scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [gold]}]}`
		silver = `scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [silver]}]}`
	)
	DescribeTable("and the verdict is",
		func(ctx SpecContext, before, after string, want verdict) {
			namespace := f.NewNamespace(ctx, nil)
			patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": parse(after)}})
			Expect(err).NotTo(HaveOccurred())
			change := func(gvk schema.GroupVersionKind, namespace string) verdict {
				GinkgoHelper()
				obj := newObject(gvk, namespace, parse(before))
				Expect(f.Client.Create(ctx, obj)).To(Succeed())
				DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, obj))).To(Succeed()) })
				err := f.Client.Patch(ctx, obj.DeepCopy(), client.RawPatch(types.JSONPatchType, patch), client.DryRunAll)
				if slices.Contains(want.Fields, "spec.scopes") {
					Expect(err).To(MatchError(ContainSubstring("spec.scopes: Invalid value:")))
					Expect(err).To(MatchError(ContainSubstring("field is immutable")))
				}
				return verdictOf(err)
			}
			Expect(change(resourceQuota, namespace)).To(Equal(want), "ResourceQuota")
			Expect(change(scopedQuota, namespace)).To(Equal(want), "ScopedQuota")
			Expect(change(clusterScopedQuota, "")).To(Equal(want), "ClusterScopedQuota")
		},
		Entry("nothing changed", `{hard: {pods: "1"}, scopes: [Terminating]}`, `{hard: {pods: "1"}, scopes: [Terminating]}`, accepted),
		Entry("scopes added", `{hard: {pods: "1"}}`, `{hard: {pods: "1"}, scopes: [Terminating]}`, refused("spec.scopes")),
		Entry("scopes added to an empty list", `{scopes: []}`, `{scopes: [Terminating]}`, refused("spec.scopes")),
		Entry("a scope added", `{scopes: [Terminating]}`, `{scopes: [Terminating, BestEffort]}`, refused("spec.scopes")),
		Entry("a scope removed", `{scopes: [Terminating, BestEffort]}`, `{scopes: [BestEffort]}`, refused("spec.scopes")),
		Entry("a scope replaced", `{scopes: [Terminating]}`, `{scopes: [NotTerminating]}`, refused("spec.scopes")),
		Entry("scopes removed", `{hard: {pods: "1"}, scopes: [Terminating]}`, `{hard: {pods: "1"}}`, refused("spec.scopes")),
		Entry("scopes emptied", `{scopes: [Terminating]}`, `{scopes: []}`, refused("spec.scopes")),
		Entry("an empty list removed", `{scopes: []}`, `{}`, accepted),
		Entry("an empty list added", `{hard: {pods: "1"}}`, `{hard: {pods: "1"}, scopes: []}`, accepted),
		Entry("scopes in another order", `{scopes: [Terminating, BestEffort]}`, `{scopes: [BestEffort, Terminating]}`, accepted),
		Entry("a scope repeated", `{scopes: [Terminating]}`, `{scopes: [Terminating, Terminating]}`, accepted),
		Entry("a selector added", `{hard: {pods: "1"}}`, `{hard: {pods: "1"}, `+gold+`}`, accepted),
		Entry("a selector changed", `{`+gold+`}`, `{`+silver+`}`, accepted),
		Entry("a selector removed", `{`+gold+`}`, `{}`, accepted),
		Entry("a selector instead of scopes", `{scopes: [PriorityClass]}`, `{`+gold+`}`, refused("spec.scopes")),
		Entry("more of the same", `{hard: {pods: "1"}, scopes: [BestEffort]}`, `{hard: {pods: "2"}, scopes: [BestEffort]}`, accepted),
		Entry("a bad amount", `{hard: {pods: "1"}}`, `{hard: {pods: "-2"}}`, refused("spec.hard")),
		Entry("a bad selector", `{`+gold+`}`, `{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}]}}`, refused("spec.scopeSelector")),
		Entry("a resource that the selector does not go with", `{hard: {pods: "1"}, `+gold+`}`, `{hard: {services: "1"}, `+gold+`}`, refused("spec.scopeSelector")),
	)

	It("and resources still have to go with the scopes", func(ctx SpecContext) {
		quota := newObject(scopedQuota, f.NewNamespace(ctx, nil), parse(`{hard: {pods: "1"}, scopes: [BestEffort]}`))
		Expect(f.Client.Create(ctx, quota)).To(Succeed())
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"cpu":"1"}}}`))
		Expect(f.Client.Patch(ctx, quota, patch)).To(MatchError(And(ContainSubstring("spec.scopes: Invalid value:"), ContainSubstring("the scope applies to pods alone"))))
	})
})

var _ = Describe("A LimitedResource", Label("versions"), func() {
	create := func(ctx SpecContext, spec string) error {
		GinkgoHelper()
		return f.Client.Create(ctx, newObject(limitedResource, "", parse(spec)), client.DryRunAll)
	}

	DescribeTable("is accepted with",
		func(ctx SpecContext, spec string) { Expect(create(ctx, spec)).To(Succeed()) },
		Entry("the seed's first story", `{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [cluster-services]}]}`),
		Entry("the seed's second story", `{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: Exists}]}`),
		Entry("every scope of pods", `{apiGroup: "", resource: pods, matchScopes: [`+
			`{scopeName: Terminating, operator: Exists}, {scopeName: NotTerminating, operator: Exists}, {scopeName: BestEffort, operator: Exists}, `+
			`{scopeName: NotBestEffort, operator: Exists}, {scopeName: CrossNamespacePodAffinity, operator: Exists}, {scopeName: PriorityClass, operator: DoesNotExist}]}`),
		Entry("the scope of claims", `{resource: persistentvolumeclaims, matchScopes: [{scopeName: VolumeAttributesClass, operator: NotIn, values: [cheap]}]}`),
		Entry("parts of names", `{resource: persistentvolumeclaims, matchContains: [.storageclass.storage.k8s.io/requests.storage]}`),
		Entry("parts of names of a group's resource", `{apiGroup: apps, resource: deployments, matchContains: [count/deployments.apps]}`),
		Entry("both", `{resource: pods, matchContains: [requests.nvidia.com/], matchScopes: [{scopeName: PriorityClass, operator: Exists}]}`),
		Entry("a selector of namespaces", `{resource: pods, matchContains: [pods], namespaceSelector: {matchLabels: {team: payments}}}`),
		Entry("every kind of selector", `{resource: pods, matchContains: [pods], namespaceSelector: {matchLabels: {example.com/a: "", A_b.c: "1"}, matchExpressions: [`+
			`{key: a, operator: In, values: [b, ""]}, {key: example.com/a, operator: NotIn, values: [c]}, {key: b, operator: Exists}, {key: c, operator: DoesNotExist, values: []}]}}`),
	)

	DescribeTable("is refused with its field's path with",
		func(ctx SpecContext, spec, path string, message ...string) {
			err := create(ctx, spec)
			Expect(blamed(err)).To(ContainElement(path))
			for _, m := range message {
				Expect(err).To(MatchError(ContainSubstring(m)))
			}
		},
		Entry("no spec", `null`, "spec", "Required value"),
		Entry("nothing", `{}`, "spec.resource", "Required value"),
		Entry("an empty resource", `{resource: "", matchContains: [pods]}`, "spec.resource"),
		Entry("a subresource", `{resource: pods/ephemeralcontainers, matchContains: [pods]}`, "spec.resource", "without subresource"),
		Entry("every resource", `{resource: "*", matchContains: [pods]}`, "spec.resource", "one resource"),
		Entry("a resource of too long a name", `{resource: `+strings.Repeat("a", 64)+`, matchContains: [pods]}`, "spec.resource", "63"),
		Entry("too long a group", `{apiGroup: `+strings.Repeat("a", 254)+`, resource: pods, matchContains: [pods]}`, "spec.apiGroup", "253"),
		Entry("nothing to match", `{resource: pods}`, "spec.matchContains", "without them nothing is limited"),
		Entry("nothing to match, said at length", `{resource: pods, matchContains: [], matchScopes: []}`, "spec.matchContains", "without them nothing is limited"),
		Entry("an empty part of names", `{resource: pods, matchContains: [""]}`, "spec.matchContains[0]"),
		Entry("too many parts of names", `{resource: pods, matchContains: [`+many(33, "r%02d")+`]}`, "spec.matchContains", "32"),
		Entry("too many scopes", `{resource: pods, matchScopes: [`+many(17, "{scopeName: PriorityClass, operator: Exists}")+`]}`, "spec.matchScopes", "16"),
		Entry("a scope of pods on claims", `{resource: persistentvolumeclaims, matchScopes: [{scopeName: PriorityClass, operator: Exists}]}`, "spec.matchScopes", "pods have all other scopes"),
		Entry("the scope of claims on pods", `{resource: pods, matchScopes: [{scopeName: VolumeAttributesClass, operator: Exists}]}`, "spec.matchScopes", "persistentvolumeclaims have VolumeAttributesClass"),
		Entry("a scope on what has none", `{resource: services, matchScopes: [{scopeName: BestEffort, operator: Exists}]}`, "spec.matchScopes", "no other resource has a scope"),
		Entry("a scope on pods of another group", `{apiGroup: example.com, resource: pods, matchScopes: [{scopeName: BestEffort, operator: Exists}]}`, "spec.matchScopes"),
		Entry("a scope on claims of another group", `{apiGroup: example.com, resource: persistentvolumeclaims, matchScopes: [{scopeName: VolumeAttributesClass, operator: Exists}]}`, "spec.matchScopes"),
		Entry("an unknown scope", `{resource: pods, matchScopes: [{scopeName: Bogus, operator: Exists}]}`, "spec.matchScopes[0].scopeName", `"Bogus"`),
		Entry("an unknown operator", `{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: Near}]}`, "spec.matchScopes[0].operator", `"Near"`),
		Entry("no operator", `{resource: pods, matchScopes: [{scopeName: PriorityClass}]}`, "spec.matchScopes[0].operator", "Required value"),
		Entry("In without values", `{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In}]}`, "spec.matchScopes[0].values", "at least one value"),
		Entry("NotIn with no values", `{resource: pods, matchScopes: [{scopeName: BestEffort, operator: Exists}, {scopeName: PriorityClass, operator: NotIn, values: []}]}`,
			"spec.matchScopes[1].values", "at least one value"),
		Entry("Exists with values", `{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: Exists, values: [a]}]}`, "spec.matchScopes[0].values", "no value"),
		Entry("In on what has no values", `{resource: pods, matchScopes: [{scopeName: BestEffort, operator: In, values: [a]}]}`, "spec.matchScopes[0].operator", "must be Exists"),
		Entry("a label that is none", `{resource: pods, matchContains: [a], namespaceSelector: {matchLabels: {"not a key!": x}}}`, "spec.namespaceSelector.matchLabels", "label's name"),
		Entry("a label's value that is none", `{resource: pods, matchContains: [a], namespaceSelector: {matchLabels: {a: "b c"}}}`, "spec.namespaceSelector.matchLabels.a"),
		Entry("an operator of labels that is none", `{resource: pods, matchContains: [a], namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}`,
			"spec.namespaceSelector.matchExpressions[0].operator", `"Near"`),
		Entry("an expression without key", `{resource: pods, matchContains: [a], namespaceSelector: {matchExpressions: [{key: "", operator: Exists}]}}`,
			"spec.namespaceSelector.matchExpressions[0].key"),
		Entry("an expression without values", `{resource: pods, matchContains: [a], namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}`,
			"spec.namespaceSelector.matchExpressions[0].values", "at least one value"),
		Entry("an expression with values too many", `{resource: pods, matchContains: [a], namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`,
			"spec.namespaceSelector.matchExpressions[0].values", "no value"),
		Entry("a value that is no name", `{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: ["not a name!"]}]}`, "spec.matchScopes[0].values[0]"),
	)
})

var _ = Describe("The samples", Label("versions"), func() {
	It("can be applied as they are", func(ctx SpecContext) {
		out := f.MustKubectl(ctx, "", "apply", "--server-side", "--dry-run=server", "--namespace", f.NewNamespace(ctx, nil), "-k", "config/samples")
		for _, kind := range []string{"scopedquota", "clusterscopedquota", "limitedresource", "placementpolicy"} {
			Expect(out).To(MatchRegexp(`(?m)^` + kind + `\.placement\.berth\.dev/\S+ serverside-applied \(server dry run\)$`))
		}
	})
})
