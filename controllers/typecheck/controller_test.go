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

package typecheck

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/simulation"
)

// reader returns one policy.
type reader struct {
	client.Reader
	policy *placementv1.PlacementPolicy
}

func (r reader) Get(_ context.Context, _ client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	r.policy.DeepCopyInto(out.(*placementv1.PlacementPolicy))
	return nil
}

// TestFindingsChangeOnce checks that a comparison with what there is changes the status only if it finds something else.
func TestFindingsChangeOnce(t *testing.T) {
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known())
	if err != nil {
		t.Fatal(err)
	}
	p := &placementv1.PlacementPolicy{}
	p.Name, p.Spec.Match.ResourceRules = "p", []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
	p.Spec.Rules = []placementv1.Rule{{Name: "a", Set: &placementv1.RuleSettings{PriorityClassName: "gold"}}}
	changed, classes := 0, []string{"silver", "bronze"}
	c := New(Deps{
		Client: reader{policy: p}, Finder: &findings.Finder{Catalog: cluster.Catalog(), PriorityClasses: names(func() []string { return classes })},
		Clock: clock.RealClock{}, Bound: func(string, types.UID, int64) policy.Bindings { return nil }, Changed: func(string) { changed++ },
	})
	c.checked["p"] = checked{}
	for i, want := range []int{1, 1, 2, 2} {
		if i == 2 {
			classes = []string{"gold"}
		}
		if err := c.compare(t.Context(), "p"); err != nil || changed != want {
			t.Fatalf("comparison %d: %d changes, want %d (%v); findings %v", i, changed, want, err, c.checked["p"].others)
		}
	}
	// While no policy can be compiled, what was found before stays.
	c.checked["p"] = checked{others: []findings.Finding{{Message: "found before"}}, namespaces: true}
	c.Finder.Compiler = policy.NewBoundedCompiler(1, time.Minute, func(string, placementv1.PlacementPolicySpec) (*policy.Module, error) {
		return nil, policy.ErrBusy
	})
	if err := c.compare(t.Context(), "p"); err != nil || changed != 2 || len(c.checked["p"].others) != 1 || !c.checked["p"].namespaces {
		t.Errorf("%d changes (%v); findings %v", changed, err, c.checked["p"].others)
	}
}

// names are the names of classes that there are.
type names func() []string

func (n names) Names(context.Context) ([]string, error) { return n(), nil }

// TestCompileErrorIsNotRetried checks that a policy that does not compile is checked again only when it changes.
func TestCompileErrorIsNotRetried(t *testing.T) {
	p := &placementv1.PlacementPolicy{}
	p.Name, p.Spec.Rego = "p", `package p

this is not rego`
	changed := 0
	c := New(Deps{
		Client: reader{policy: p}, Checker: schemas.NewChecker(nil, nil),
		Bound:   func(string, types.UID, int64) policy.Bindings { return nil },
		Changed: func(string) { changed++ },
	})
	result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "p"}})
	if err != nil || result != (reconcile.Result{}) || changed != 1 {
		t.Errorf("got %+v, %v, and %d notifications; want no retry and 1 notification", result, err, changed)
	}
}
