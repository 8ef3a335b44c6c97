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

package placementmutator_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// guarded returns namespaces with the label guarded.
type guarded struct{}

func (guarded) Labels(context.Context, string) (map[string]string, error) {
	return map[string]string{"guarded": "yes"}, nil
}

// TestUnmatched checks that a request that no policy matches is decided again with live data, because this replica's
// policies or its labels of namespaces may be out of date.
func TestUnmatched(t *testing.T) {
	p := policyOf(t, "p", placementv1.ModeEnforce, placementv1.FailurePolicyFail, denies)
	matcher, errs := match.New(placementv1.Match{
		ResourceRules:     []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "yes"}},
	}, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	p.Matcher = matcher
	asked := 0
	confirm := func(err error) func(context.Context) error {
		return func(context.Context) error { asked++; return err }
	}
	behind := errors.New("behind")

	f := newFixture(t, p)
	f.Confirm, f.LiveNamespaces = confirm(nil), namespaces{}
	if r := f.Handle(t.Context(), request(deployment)); !r.Allowed || asked != 1 {
		t.Errorf("no policy matches: %+v, asked %d times", r.Result, asked)
	}
	f.LiveNamespaces = guarded{}
	if r := f.Handle(t.Context(), request(deployment)); r.Allowed || r.Result.Code != http.StatusForbidden {
		t.Errorf("the namespace was labelled: %+v", r)
	}
	f.Confirm = confirm(behind)
	if r := f.Handle(t.Context(), request(deployment)); r.Allowed || r.Result.Code != http.StatusInternalServerError || !strings.Contains(r.Result.Message, "behind") {
		t.Errorf("the replica is behind: %+v", r)
	}
	f.FailurePolicy = placementv1.FailurePolicyIgnore
	f.notes.lines = nil
	if r := f.Handle(t.Context(), request(deployment)); !r.Allowed || len(r.Warnings) != 1 || len(f.notes.lines) != 1 {
		t.Errorf("the replica is behind, and failures are ignored: %+v, events %v", r, f.notes.lines)
	}

	asked = 0
	f.Decider.Namespaces = guarded{}
	if r := f.Handle(t.Context(), request(deployment)); r.Allowed || r.Result.Code != http.StatusForbidden || asked != 0 {
		t.Errorf("a policy matches: %+v, asked %d times", r, asked)
	}
}
