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

package remediator

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/budget"
)

// onDeployments returns a policy on Deployments. If label is not empty, it matches only those with that tier.
func onDeployments(text, label string) placementv1.PlacementPolicySpec {
	spec := placementv1.PlacementPolicySpec{Rego: "package placement\n\n" + text, RegoVersion: placementv1.RegoV1}
	spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
	if label != "" {
		spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": label}}
	}
	spec.Remediation.Mode = placementv1.RemediationManual
	return spec
}

// decided decides all queued objects and returns their names, sorted.
func (l *leader) decided() []string {
	l.t.Helper()
	names := map[string]bool{}
	for {
		key, empty := l.work.Get()
		if empty {
			return slices.Sorted(maps.Keys(names))
		}
		names[key.Key().Name] = true
		if _, err := l.Reconcile(l.t.Context(), key); err != nil {
			l.t.Fatal(err)
		}
	}
}

// catchUpAndDecide processes changes of policies and data, and decides the objects that are enqueued for them.
func (l *leader) catchUpAndDecide() []string {
	l.t.Helper()
	l.catchUp(l.t.Context())
	return l.decided()
}

// deployment returns a Deployment with a tier and an annotation that the test policies read.
func deployment(name, tier, asks string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replicas": int64(3)}}}
	o.SetName(name)
	o.SetNamespace("shop")
	o.SetUID(types.UID("uid of " + name))
	o.SetResourceVersion("1")
	o.SetLabels(map[string]string{"tier": tier})
	o.SetAnnotations(map[string]string{"asks": asks})
	return o
}

const byJurisdiction = `annotations["example.com/clusters"] := concat("_", sort([name |
	some name
	data.kubernetes.clusterprofiles.fleet[name].metadata.labels["topology.berth.dev/jurisdiction"] == input.metadata.annotations.asks
]))
`

// TestDataChanges checks that a change of data enqueues the objects whose decision changed, and that the ledger still
// has the others.
func TestDataChanges(t *testing.T) {
	l := newLeader(t)
	l.data.Load(profiles, projection.AllFields(), fleet(4))
	l.apply("p", onDeployments(byJurisdiction, ""))
	l.catchUp(t.Context())
	var objects []*unstructured.Unstructured
	for i := range 8 {
		objects = append(objects, deployment(fmt.Sprintf("eu-%d", i), "front", "eu"), deployment(fmt.Sprintf("us-%d", i), "front", "us"))
	}
	l.fill(deployments, objects)
	l.decided()
	if got := l.catchUpAndDecide(); len(got) > 0 {
		t.Fatalf("decided again without a change: %v", got)
	}
	l.data.Put(profiles, profile(8, "eu", "1"))
	if diff := cmp.Diff([]string{"eu-0", "eu-1", "eu-2", "eu-3", "eu-4", "eu-5", "eu-6", "eu-7"}, l.catchUpAndDecide()); diff != "" {
		t.Errorf("decided (-want +got):\n%s", diff)
	}
	if r := l.Ledger.Report("p"); r.Matched != 16 || r.Violations != 16 {
		t.Errorf("matched %d, violations %d", r.Matched, r.Violations)
	}
	l.data.Put(profiles, profile(9, "ca", "1"))
	if got := l.catchUpAndDecide(); len(got) > 0 {
		t.Errorf("decided without another decision: %v", got)
	}
}

// TestPolicyChanges checks that a policy that is added, changed or deleted enqueues, once, the objects that it may
// match or may have matched.
func TestPolicyChanges(t *testing.T) {
	l := newLeader(t)
	l.apply("all", onDeployments(`annotations["example.com/a"] := "1"`, ""))
	l.fill(deployments, []*unstructured.Unstructured{deployment("a", "front", ""), deployment("b", "back", ""), deployment("c", "", "")})
	l.decided()
	l.catchUpAndDecide()

	l.apply("p", onDeployments(`annotations["example.com/b"] := "1"`, "front"))
	if diff := cmp.Diff([]string{"a"}, l.catchUpAndDecide()); diff != "" {
		t.Errorf("decided for a new policy (-want +got):\n%s", diff)
	}
	l.apply("p", onDeployments(`annotations["example.com/b"] := "1"`, "back"))
	if diff := cmp.Diff([]string{"a", "b"}, l.catchUpAndDecide()); diff != "" {
		t.Errorf("decided for a policy that changed (-want +got):\n%s", diff)
	}
	if r := l.Ledger.Report("p"); r.Matched != 1 {
		t.Errorf("it matches %d", r.Matched)
	}
	l.Registry.Remove("p")
	if diff := cmp.Diff([]string{"b"}, l.catchUpAndDecide()); diff != "" {
		t.Errorf("decided for a policy that went (-want +got):\n%s", diff)
	}
	l.apply("p", onDeployments(`annotations["example.com/b"] := "1"`, "front"))
	l.Registry.Remove("p")
	l.apply("q", onDeployments(`annotations["example.com/b"] := "1"`, "back"))
	if diff := cmp.Diff([]string{"a", "b"}, l.catchUpAndDecide()); diff != "" {
		t.Errorf("decided for all of them (-want +got):\n%s", diff)
	}
}

// TestQueuedOnce checks that a queued object is not queued again, and that an object that is being decided is.
func TestQueuedOnce(t *testing.T) {
	l := newLeader(t)
	l.apply("all", onDeployments(`annotations["example.com/a"] := "1"`, ""))
	l.fill(deployments, []*unstructured.Unstructured{deployment("a", "front", "")})
	key := remediation.Key{Resource: deployments, Namespace: "shop", Name: "a"}
	// queues reports whether the object is added to the workqueue, which is empty before.
	queues := func() bool {
		for l.work.Len() > 0 {
			l.work.Get()
		}
		l.objects.Enqueue(key)
		return l.work.Len() > 0
	}
	if queues() {
		t.Error("queued twice")
	}
	l.objects.Take(key)
	if !queues() {
		t.Error("not queued again")
	}
	l.objects.Put(deployments, deployment("a", "back", ""))
	if queues() {
		t.Error("queued twice after a change")
	}
}

// TestObjectsLackFields checks that an object that lacks fields that a policy reads has no result. It is decided as
// soon as the fields are there or the policy is deleted.
func TestObjectsLackFields(t *testing.T) {
	l := newLeader(t)
	l.apply("p", onDeployments(`annotations["example.com/a"] := input.metadata.annotations.asks`, ""))
	l.fill(deployments, []*unstructured.Unstructured{deployment("a", "front", "x")})
	l.decided()
	l.catchUpAndDecide()
	key := remediation.Key{Resource: deployments, Namespace: "shop", Name: "a"}
	if o, fields := l.objects.Take(key); fields == nil || o.Object["spec"] != nil {
		t.Fatalf("more is kept than anybody reads: %v", o)
	}
	l.apply("q", onDeployments(`annotations["example.com/n"] := input.spec.replicas`, ""))
	l.catchUp(t.Context())
	again, err := l.Reconcile(t.Context(), key.Compact())
	if err != nil || again.RequeueAfter == 0 {
		t.Errorf("%v, %v", again, err)
	}
	if r := l.Ledger.Report("q"); r.Matched != 0 {
		t.Error("decided without what it reads")
	}
	l.decided()
	l.fill(deployments, []*unstructured.Unstructured{deployment("a", "front", "x")})
	if diff := cmp.Diff([]string{"a"}, l.decided()); diff != "" {
		t.Errorf("decided once it is there (-want +got):\n%s", diff)
	}
	if r := l.Ledger.Report("q"); r.Matched != 1 || r.Violations != 1 {
		t.Errorf("%+v", r)
	}
}

// learner is an evaluator that reports, after its first evaluation, that it reads whole objects.
type learner struct {
	placement.Evaluator
	input atomic.Pointer[projection.FieldSet]
}

func (l *learner) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	l.input.Store(projection.AllFields())
	return l.Evaluator.Evaluate(ctx, input)
}

func (l *learner) Input() *projection.FieldSet { return l.input.Load() }

// TestReadsMoreThanWasFound checks that a decision on too few fields does not count, and that the missing fields are
// requested.
func TestReadsMoreThanWasFound(t *testing.T) {
	l := newLeader(t)
	l.apply("p", onDeployments(`annotations["example.com/a"] := input.metadata.annotations.asks`, ""))
	state := *l.Registry.Get("p")
	p := *state.Policy
	evaluator := &learner{Evaluator: p.Evaluator}
	evaluator.input.Store(p.Evaluator.Input())
	p.Evaluator = evaluator
	state.Policy = &p
	l.Registry.Set("p", &state)
	l.fill(deployments, []*unstructured.Unstructured{deployment("a", "front", "x")})
	l.catchUp(t.Context())
	for len(l.backlog.due) > 0 {
		<-l.backlog.due
	}
	key, _ := l.work.Get()
	again, err := l.Reconcile(t.Context(), key)
	if err != nil || again.RequeueAfter == 0 || l.Ledger.Report("p").Matched != 0 {
		t.Errorf("%v, %v, %+v", again, err, l.Ledger.Report("p"))
	}
	if len(l.backlog.due) == 0 {
		t.Error("nobody is told")
	}
	l.catchUp(t.Context())
	if objects, _ := l.wanted(); !objects[deployments].IsAll() {
		t.Errorf("wanted are %v", objects[deployments].Paths())
	}
}

// randomText returns the text of a policy that reads some fields of objects.
func randomText(r *rand.Rand) string {
	return pick(r, []string{
		`annotations["example.com/a"] := input.metadata.annotations.asks`,
		`annotations["example.com/a"] := input.metadata.labels.tier`,
		`labels.count := format_int(count(input.metadata.annotations), 10)`,
		`annotations["example.com/all"] := input.metadata.annotations`,
		`annotations["example.com/n"] := input.spec.replicas`,
		`annotations["example.com/kubectl"] := count(input.metadata.annotations["` + lastApplied + `"])`,
		`annotations["example.com/names"] := [c.name | some c in input.spec.template.spec.containers]`,
		`annotations["example.com/size"] := count(json.marshal(input))`,
		`annotations["example.com/who"] := concat("/", [input.kind, input.metadata.namespace, input.metadata.name, input.metadata.uid])`,
		`errors contains "no" if input.metadata.labels.tier == "front"`,
		`warnings contains sprintf("%v", [input.metadata.creationTimestamp])`,
		`annotations["example.com/a"] := "1"`,
	}) + "\n"
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// opinions returns a text form of an outcome for comparison.
func opinions(out *placement.Outcome) []string {
	lines := []string{out.Digest()}
	for _, v := range out.Verdicts {
		line := fmt.Sprint(v.Policy.Name, v.Decision, v.Err, v.Conflicts)
		for _, change := range v.Changes {
			line += "; " + change.Action()
		}
		lines = append(lines, line)
	}
	return lines
}

// TestKeptObjectsAreDecidedTheSame checks that a cut object gets the same decisions as the whole object, for random
// policies.
func TestKeptObjectsAreDecidedTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cut, rounds := 0, budget.Rounds(150)
	for range rounds {
		l := newLeader(t)
		spec := func() placementv1.PlacementPolicySpec {
			s := onDeployments(randomText(r), pick(r, []string{"", "front", "back"}))
			s.Mode = pick(r, []placementv1.Mode{placementv1.ModeEnforce, placementv1.ModeEnforce, placementv1.ModeDryRun})
			s.Remediation.Mode = pick(r, []placementv1.RemediationMode{placementv1.RemediationAutomatic, placementv1.RemediationManual})
			if r.IntN(8) == 0 {
				s.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "big", Expression: "object.spec.replicas > 2"}}
			}
			return s
		}
		for i := range 1 + r.IntN(3) {
			l.apply(fmt.Sprintf("p-%d", i), spec())
		}
		whole := workload(t, r.IntN(1000))
		whole.SetLabels(map[string]string{"tier": pick(r, []string{"front", "back", "other"})})
		if r.IntN(3) > 0 {
			// The object was placed by policies, some of which have changed since.
			whole = l.placed(whole)
			l.apply("p-0", spec())
		}
		if r.IntN(3) == 0 {
			annotations := whole.GetAnnotations()
			annotations["example.com/a"] = "2"
			annotations["asks"] = "3"
			whole.SetAnnotations(annotations)
		}
		unstructured.RemoveNestedField(whole.Object, "metadata", "managedFields")
		before := whole.DeepCopy()
		kept := whole.DeepCopy()
		l.fill(deployments, []*unstructured.Unstructured{kept})
		key := keyOf(deployments, whole)
		kept, fields := l.objects.Take(key)
		if fields != nil {
			cut++
		}
		decide := func(o *unstructured.Unstructured) []string {
			out, err := l.Decider.Assess(t.Context(), l.request(&scope{key: key, object: o}))
			if err != nil {
				t.Fatal(err)
			}
			return opinions(out)
		}
		if diff := cmp.Diff(decide(whole), decide(kept)); diff != "" {
			t.Fatalf("%v of %v decided otherwise (-whole +kept):\n%s", fields.Paths(), whole, diff)
		}
		if diff := cmp.Diff(before.Object, whole.Object); diff != "" {
			t.Fatalf("a decision changed its object:\n%s", diff)
		}
		if kept.GetUID() != whole.GetUID() || kept.GetResourceVersion() != whole.GetResourceVersion() {
			t.Fatalf("a patch would be of %s in version %s", kept.GetUID(), kept.GetResourceVersion())
		}
		if kept.GroupVersionKind() != whole.GroupVersionKind() || kept.GetNamespace() != whole.GetNamespace() || kept.GetName() != whole.GetName() {
			t.Fatalf("an event would be about %v", kept)
		}
	}
	if cut < rounds/3 {
		t.Errorf("only %d objects were cut", cut)
	}
}
