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

package policyloader

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rollout"
)

// changing is an API server that serves types of the given plural names in the given groups; carts, if there are none. refresh is the error
// of its discovery.
type changing struct {
	*policyCluster
	plurals []string
	groups  []string
	refresh error
}

func (c *changing) Refresh(context.Context) error { return c.refresh }

func (c *changing) ByPlural(plural string) []policy.Resource {
	var out []policy.Resource
	for _, group := range c.groups {
		if slices.Contains(c.plurals, plural) || c.plurals == nil && plural == "carts" {
			out = append(out, policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}})
		}
	}
	return out
}

// kept is a client that reads the one revision that the leader stored; nil for none.
type kept struct {
	client.Reader
	revision *policy.Revision
}

func (k kept) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	if k.revision == nil {
		return apierrors.NewNotFound(appsv1.Resource("controllerrevisions"), key.Name)
	}
	text, err := policy.EncodeRevision(*k.revision)
	out.(*appsv1.ControllerRevision).Data = runtime.RawExtension{Raw: text}
	return err
}

const carts = `package p

labels["carts"] := "x" if count(data.kubernetes.carts) > 0
`

// TestUpdatesThatReadWhatIsNotServed checks that a version that reads a type that is not served is in force only if no
// earlier version can decide.
func TestUpdatesThatReadWhatIsNotServed(t *testing.T) {
	from := policiesOf(1, text)
	c, registry := newController(t, from)
	world := &changing{policyCluster: from}
	c.Catalog = world
	load(t, c, "policy-0")
	first := registry.Get("policy-0")
	from.change("policy-0", "policy-0", carts)
	for range 2 {
		result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "policy-0"}})
		got := registry.Get("policy-0")
		if _, waits := errors.AsType[*policy.NotServedError](got.Err); err != nil || !waits || got.Policy != first.Policy || got.Generation != 2 || result.RequeueAfter != missingInterval {
			t.Fatalf("in force is generation %d, observed %d, errors %v and %v, loaded again after %s", got.Policy.Generation, got.Generation, got.Err, err, result.RequeueAfter)
		}
	}
	// Load a version that does not compile, and then one that does.
	from.change("policy-0", "policy-0", `package p
labels := x`)
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Policy != first.Policy || got.Generation != 3 || got.Err == nil {
		t.Errorf("in force is generation %d, observed %d", got.Policy.Generation, got.Generation)
	}
	from.change("policy-0", "policy-0", carts)
	load(t, c, "policy-0")
	world.groups = []string{"a.example"}
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Policy.Generation != 4 || got.Err != nil {
		t.Errorf("in force is generation %d, error %v", got.Policy.Generation, got.Err)
	}
	// If a type is uninstalled while the policy reads it, the policy remains in force and the type is missing.
	world.groups = nil
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Policy.Generation != 4 || len(got.Binding.Missing) != 1 {
		t.Errorf("in force is generation %d, missing %v", got.Policy.Generation, got.Binding.Missing)
	}
}

// TestVersionsThatLackTypes checks that a version goes back to the one in force last, even if an older one was complete once, and that the
// error is published again when it has another text.
func TestVersionsThatLackTypes(t *testing.T) {
	from := policiesOf(1, func(int) string { return carts })
	c, registry := newController(t, from)
	world := &changing{policyCluster: from, groups: []string{"a.example"}}
	c.Catalog = world
	load(t, c, "policy-0")
	world.groups = nil
	from.change("policy-0", "policy-0", `package p

labels.boats := "x" if count(data.kubernetes.boats) > 0
`)
	load(t, c, "policy-0")
	inForce := func(generation int64, missing int) {
		t.Helper()
		if got := registry.Get("policy-0"); got.Policy.Generation != generation || len(got.Binding.Missing) != missing {
			t.Errorf("in force is generation %d, missing %v", got.Policy.Generation, got.Binding.Missing)
		}
	}
	inForce(2, 1)
	from.change("policy-0", "policy-0", `package p
labels := x`)
	load(t, c, "policy-0")
	inForce(2, 1)
	world.plurals, world.groups = []string{"boats"}, []string{"a.example"}
	load(t, c, "policy-0")
	inForce(2, 0)

	from.change("policy-0", "policy-0", carts+`labels.oxen := "x" if count(data.kubernetes.oxen) > 0
`)
	load(t, c, "policy-0")
	before := registry.Get("policy-0").Err.Error()
	// Only the text of the error is another one.
	world.plurals = []string{"boats", "carts"}
	load(t, c, "policy-0")
	if after := registry.Get("policy-0").Err.Error(); !strings.Contains(before, "carts") || strings.Contains(after, "carts") || !strings.Contains(after, "oxen") {
		t.Errorf("error %q, was %q", after, before)
	}
}

// TestStoredVersionThatCannotBeBoundYet checks that a load is repeated if discovery fails when an earlier version is bound. That says
// nothing about the version.
func TestStoredVersionThatCannotBeBoundYet(t *testing.T) {
	from := policiesOf(1, func(int) string {
		return `package p
labels := x`
	})
	obj := from.policies["policy-0"]
	obj.Generation = 2
	c, registry := newController(t, from)
	world := &changing{policyCluster: from, refresh: errors.New("down")}
	c.Catalog = world
	spec := *obj.Spec.DeepCopy()
	spec.Rego = carts
	c.Revisions = kept{revision: &policy.Revision{UID: obj.UID, Generation: 1, Spec: spec}}
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "policy-0"}}
	if _, err := c.Reconcile(t.Context(), request); !errors.Is(err, world.refresh) || registry.Get("policy-0") != nil {
		t.Errorf("error %v, state %+v", err, registry.Get("policy-0"))
	}
	world.refresh = nil
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Broken || got.Policy.Generation != 1 {
		t.Errorf("broken: %t, error %v", got.Broken, got.Err)
	}
}

func TestTheFirstVersionThatReadsWhatIsNotServed(t *testing.T) {
	from := policiesOf(1, func(int) string { return carts })
	c, registry := newController(t, from)
	load(t, c, "policy-0")
	from.change("policy-0", "policy-0", carts+"\n# another\n")
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Policy.Generation != 2 || got.Err != nil || len(got.Binding.Missing) != 1 {
		t.Errorf("in force is generation %d, error %v", got.Policy.Generation, got.Err)
	}
}

// TestRestartsKeepBindings checks that a restarted replica binds a source to its recorded groups, whatever groups are
// served at the start.
func TestRestartsKeepBindings(t *testing.T) {
	for name, tc := range map[string]struct {
		groups   []string
		revision func(*policy.Revision)
		group    string
		missing  bool
	}{
		"alone":                 {[]string{"a.example"}, nil, "a.example", false},
		"a namesake":            {[]string{"a.example", "b.example"}, nil, "a.example", false},
		"a namesake first":      {[]string{"0.example", "a.example"}, nil, "a.example", false},
		"the namesake alone":    {[]string{"b.example"}, nil, "", true},
		"of another policy":     {[]string{"b.example"}, func(r *policy.Revision) { r.UID = "another" }, "b.example", false},
		"of another text":       {[]string{"b.example"}, func(r *policy.Revision) { r.Generation, r.Spec.Rego = 1, text(1) }, "b.example", false},
		"of an earlier version": {[]string{"a.example", "b.example"}, func(r *policy.Revision) { r.Generation, r.Spec.Priority = 1, 7 }, "a.example", false},
	} {
		t.Run(name, func(t *testing.T) {
			from := policiesOf(1, func(int) string { return carts })
			obj := from.policies["policy-0"]
			obj.Generation = 2
			c, registry := newController(t, from)
			c.Catalog = &changing{policyCluster: from, groups: tc.groups}
			revision := &policy.Revision{UID: obj.UID, Generation: 2, Spec: *obj.Spec.DeepCopy(), Bindings: policy.Bindings{"carts": "a.example"}}
			if tc.revision != nil {
				tc.revision(revision)
			}
			c.Revisions = kept{revision: revision}
			for range 2 {
				load(t, c, "policy-0")
				got := registry.Get("policy-0")
				if got.Broken {
					t.Fatal(got.Err)
				}
				if (len(got.Binding.Missing) > 0) != tc.missing {
					t.Fatalf("missing %v", got.Binding.Missing)
				}
				if !tc.missing && got.Binding.Paths[0].Resource.Group != tc.group {
					t.Errorf("bound to %v", got.Binding.Paths)
				}
			}
		})
	}
}

// TestFallingBackKeepsBindings checks that a stored version that decides in place of the newest one keeps its bindings.
func TestFallingBackKeepsBindings(t *testing.T) {
	from := policiesOf(1, func(int) string {
		return `package p
labels := x`
	})
	obj := from.policies["policy-0"]
	obj.Generation = 2
	c, registry := newController(t, from)
	c.Catalog = &changing{policyCluster: from, groups: []string{"a.example", "b.example"}}
	spec := *obj.Spec.DeepCopy()
	spec.Rego = carts
	c.Revisions = kept{revision: &policy.Revision{UID: obj.UID, Generation: 1, Spec: spec, Bindings: policy.Bindings{"carts": "b.example"}}}
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Broken || got.Binding.Paths[0].Resource.Group != "b.example" {
		t.Errorf("broken: %t, error %v", got.Broken, got.Err)
	}
}

// TestUpdatesKeepBindings checks that an update that does not change the source keeps the bindings. A new source must
// be unambiguous.
func TestUpdatesKeepBindings(t *testing.T) {
	from := policiesOf(1, func(int) string { return carts })
	c, registry := newController(t, from)
	world := &changing{policyCluster: from, groups: []string{"a.example"}}
	c.Catalog = world
	load(t, c, "policy-0")
	world.groups = []string{"0.example", "a.example"}
	load(t, c, "policy-0")
	if got := registry.Get("policy-0"); got.Err != nil || len(got.Warnings) != 1 {
		t.Fatalf("error %v, warnings %q", got.Err, got.Warnings)
	}
	change := func(f func(*placementv1.PlacementPolicySpec)) {
		f(&from.policies["policy-0"].Spec)
		from.policies["policy-0"].Generation++
		load(t, c, "policy-0")
	}
	change(func(s *placementv1.PlacementPolicySpec) { s.Priority = 7 })
	if got := registry.Get("policy-0"); got.Err != nil || got.Policy.Priority != 7 || got.Binding.Paths[0].Resource.Group != "a.example" {
		t.Errorf("error %v, priority %d, bound to %v", got.Err, got.Policy.Priority, got.Binding.Paths)
	}
	change(func(s *placementv1.PlacementPolicySpec) { s.Rego += "\n# another\n" })
	if got := registry.Get("policy-0"); !policy.IsAmbiguous(got.Err) || got.Policy.Generation != 2 {
		t.Errorf("error %v, in force is generation %d", got.Err, got.Policy.Generation)
	}
}

// inStages returns a policy with two stages of which one is reached.
func inStages(from *policyCluster) *placementv1.PlacementPolicy {
	obj := from.policies["policy-0"]
	obj.Generation = 2
	obj.Spec.Rollout = &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{{Name: "canary"}, {Name: "rest"}}}
	obj.Status.Rollout = &placementv1.RolloutStatus{Digest: rollout.Digest(obj.Spec), Revision: 2, Reached: new(int32(1)), State: placementv1.RolloutProgressing}
	return obj
}

// TestStoredVersionThatFails checks that a policy fails whose version that was in force last does not compile any more, and says so.
// Without a version, it would match nothing.
func TestStoredVersionThatFails(t *testing.T) {
	from := policiesOf(1, text)
	obj := inStages(from)
	obj.Status.Rollout = nil
	c, registry := newController(t, from)
	spec := *obj.Spec.DeepCopy()
	spec.Rego, spec.Rollout = `package p
labels := x`, nil
	c.Revisions = kept{revision: &policy.Revision{UID: obj.UID, Generation: 1, Spec: spec}}
	load(t, c, "policy-0")
	got := registry.Get("policy-0")
	if !got.Broken || !strings.Contains(fmt.Sprint(got.Err), "the version that was in force last: ") {
		t.Errorf("broken: %t, error %v", got.Broken, got.Err)
	}
}

// TestEarlierStatesAreFreed checks that what is in force does not keep in memory what was in force before.
func TestEarlierStatesAreFreed(t *testing.T) {
	from := policiesOf(1, text)
	obj := inStages(from)
	c, registry := newController(t, from)
	load(t, c, "policy-0")
	first := weak.Make(registry.Get("policy-0"))
	if first.Value().Staged.InForce.Reached != 1 {
		t.Fatalf("in force is %+v", first.Value())
	}
	for reached := range int32(2) {
		obj.Status.Rollout.Reached = new(2 - reached)
		load(t, c, "policy-0")
	}
	goruntime.GC()
	if first.Value() != nil {
		t.Error("the first state is in memory still")
	}
	goruntime.KeepAlive(registry)
}
