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

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/schemas"
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

// TestCompileErrorIsNotRetried checks that a policy that does not compile is checked again only when it changes.
func TestCompileErrorIsNotRetried(t *testing.T) {
	p := &placementv1.PlacementPolicy{}
	p.Name, p.Spec.Rego = "p", "package p\n\nthis is not rego"
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
