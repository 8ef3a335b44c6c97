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

package planstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// approvedPlan returns an approved plan with a number of moves.
func approvedPlan(t *testing.T, moves int) *moveset.Set {
	t.Helper()
	l := remediation.NewLedger()
	p := &placement.Policy{Name: "zones", Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationApproved}
	for i := range moves {
		key := remediation.Key{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "shop", Name: fmt.Sprint(i)}
		l.Record(key, "uid", "1", []*placement.Verdict{{Policy: p, Changes: []placement.Change{{Field: "annotations", Key: "k", To: new("v")}}}}, false)
	}
	l.ConcludeAssessments(time.Unix(1, 0))
	l.Approve(p.Name, &remediation.Approval{Digest: l.Report(p.Name).Plan.Digest})
	out := l.Unsaved(p.Name)
	if out == nil {
		t.Fatal("no plan is approved")
	}
	return out
}

// TestStore checks that plans are read back as they were stored, in several parts if they are large, and that a plan of which
// a part is missing is not.
func TestStore(t *testing.T) {
	ctx, scheme := t.Context(), runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, placementv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	// fail is the name of the ControllerRevision that can't be created.
	fail := ""
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if o.GetName() == fail {
				return errors.New("etcd is full")
			}
			return c.Create(ctx, o, options...)
		},
	}).Build()
	names := func() []string {
		list := &appsv1.ControllerRevisionList{}
		if err := c.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		out := []string{}
		for _, revision := range list.Items {
			out = append(out, revision.Name)
		}
		slices.Sort(out)
		return out
	}
	s := &Store{Client: c, Namespace: "berth-system", Owned: true}
	if got, err := s.Load(ctx); err != nil || len(got) != 0 {
		t.Fatalf("plans %v, %v", got, err)
	}
	zones := &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "zones", UID: "1"}}
	tiers := &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "tiers", UID: "2"}}
	small, large := approvedPlan(t, 3), approvedPlan(t, maxPartMoves+1)
	for p, plan := range map[*placementv1.PlacementPolicy]*moveset.Set{zones: small, tiers: large} {
		if err := s.Save(ctx, p, plan); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(); len(got) != 3 {
		t.Errorf("ControllerRevisions: %v", got)
	}
	// A new leader has a store of its own.
	s = &Store{Client: c, Namespace: "berth-system", Owned: true}
	got, err := s.Load(ctx)
	if err != nil || len(got) != 2 || got["zones"].UID != "1" || got["tiers"].UID != "2" {
		t.Fatalf("plans %v, %v", got, err)
	}
	for name, want := range map[string]*moveset.Set{"zones": small, "tiers": large} {
		if plan, err := moveset.DecodeSet(got[name].Digest, got[name].Moves); err != nil || !cmp.Equal(plan.Encode(), want.Encode()) {
			t.Errorf("the plan of %s was not read back as it was stored: %v", name, err)
		}
	}
	if err := s.Remove(ctx, "zones"); err != nil || len(names()) != 2 {
		t.Errorf("without the plan of zones: %v, %v", names(), err)
	}
	if err := s.Save(ctx, tiers, small); err != nil || len(names()) != 1 {
		t.Errorf("another plan of tiers: %v, %v", names(), err)
	}
	// What can't be read is no plan, and does not keep another one from being stored.
	revision := &appsv1.ControllerRevision{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "berth-system", Name: names()[0]}, revision); err != nil {
		t.Fatal(err)
	}
	revision.Data.Raw = []byte(`"damaged"`)
	if err := c.Update(ctx, revision); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Load(ctx); err != nil || len(got) != 0 {
		t.Errorf("plans %v, %v", got, err)
	}
	if err := s.Save(ctx, tiers, small); err != nil || len(names()) != 1 {
		t.Errorf("a plan in place of one that can't be read: %v, %v", names(), err)
	}
	fail = names()[0][:len(names()[0])-1] + "2"
	if err := s.Save(ctx, tiers, large); err == nil {
		t.Error("a part that can't be stored is no error")
	}
	got, err = s.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := moveset.DecodeSet(got["tiers"].Digest, got["tiers"].Moves); err == nil {
		t.Error("a plan with a missing part can be read")
	}
	if err := s.Remove(ctx, "tiers"); err != nil || len(names()) != 0 {
		t.Errorf("the rest: %v, %v", names(), err)
	}
}
