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
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/policy"
)

// keeper reads stored revisions by the names of their objects.
type keeper struct {
	client.Reader
	revisions map[string]policy.Revision
}

func (k keeper) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	revision, ok := k.revisions[key.Name]
	if !ok {
		return apierrors.NewNotFound(appsv1.Resource("controllerrevisions"), key.Name)
	}
	var err error
	out.(*appsv1.ControllerRevision).Data.Raw, err = policy.EncodeRevision(revision)
	return err
}

// TestDecidesNothing checks that the registry entry reports whether a policy has a rule of the decision contract.
func TestDecidesNothing(t *testing.T) {
	for rego, want := range map[string]bool{"package p\n\nallow := true\n": true, text(1): false} {
		from := policiesOf(1, text)
		from.policies["policy-0"].Spec.Rego = rego
		c, registry := newController(t, from)
		load(t, c, "policy-0")
		if got := registry.Get("policy-0"); got.Broken || got.DecidesNothing != want {
			t.Errorf("%q: got %t, want %t; broken is %t", rego, got.DecidesNothing, want, got.Broken)
		}
	}
}

// TestContractIsCheckedWhereTextsChange checks that a source whose contract rule can never be valid is not put in
// force, unless it was in force before Berth had this check.
func TestContractIsCheckedWhereTextsChange(t *testing.T) {
	invalid := text(1) + "\nwarnings := true if input.metadata.labels.bad\n"
	const want = "warnings must be a set or an array of strings, is a boolean"

	t.Run("new", func(t *testing.T) {
		from := policiesOf(1, text)
		from.policies["policy-0"].Spec.Rego = invalid
		c, registry := newController(t, from)
		load(t, c, "policy-0")
		if got := registry.Get("policy-0"); !got.Broken || !strings.Contains(got.Err.Error(), want) {
			t.Errorf("broken is %t, error %v", got.Broken, got.Err)
		}
	})
	t.Run("changed", func(t *testing.T) {
		from := policiesOf(1, text)
		c, registry := newController(t, from)
		load(t, c, "policy-0")
		from.policies["policy-0"].Spec.Rego, from.policies["policy-0"].Generation = invalid, 2
		load(t, c, "policy-0")
		if got := registry.Get("policy-0"); got.Broken || got.Policy.Generation != 1 || got.Err == nil || !strings.Contains(got.Err.Error(), want) {
			t.Errorf("in force is generation %d, error %v", got.Policy.Generation, got.Err)
		}
	})
	t.Run("in force before", func(t *testing.T) {
		from := policiesOf(1, text)
		obj := from.policies["policy-0"]
		obj.Spec.Rego = invalid
		c, registry := newController(t, from)
		c.Revisions = keeper{revisions: map[string]policy.Revision{policy.RevisionName("policy-0"): {UID: obj.UID, Generation: obj.Generation, Spec: *obj.Spec.DeepCopy()}}}
		check := func(generation int64) {
			t.Helper()
			// Loading it again changes nothing.
			for range 2 {
				load(t, c, "policy-0")
				if got := registry.Get("policy-0"); got.Broken || got.Policy.Generation != generation || got.Err == nil || !strings.Contains(got.Err.Error(), want) {
					t.Errorf("in force is generation %d, broken is %t, error %v", got.Policy.Generation, got.Broken, got.Err)
				}
			}
		}
		check(1)
		obj.Spec.Priority, obj.Generation = 7, 2
		check(2)
		// Another source is checked.
		obj.Spec.Rego, obj.Generation = invalid+"\nlabels.x := \"y\"\n", 3
		check(2)
	})
}
