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

package remote

import (
	"net/http"
	"strings"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestProbe verifies that the author of a policy is warned if the engine has no such document.
func TestProbe(t *testing.T) {
	tests := map[string]struct {
		handler   http.HandlerFunc
		modules   bool
		undefined placementv1.UndefinedResult
		want      string
	}{
		"Decides":     {handler: says(`{"result": {"errors": []}}`)},
		"Undefined":   {handler: says(`{}`), want: "and the policy admits objects unchanged until it has one (spec.remote.undefined): "},
		"Error":       {handler: says(`{}`), undefined: placementv1.UndefinedError, want: "and spec.failurePolicy applies to requests until it has one: "},
		"NotFound":    {handler: rejects(http.StatusNotFound), want: "the engine has no document "},
		"Rule":        {handler: says(`{"result": ["a"]}`), want: "is not a decision: "},
		"NotJSON":     {handler: says(`hello`), want: "the response of the engine can't be read: "},
		"Unavailable": {handler: rejects(http.StatusServiceUnavailable), want: "the engine gives no decision"},
		"Supplied":    {handler: says(`{}`), modules: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.handler)
			spec := placementv1.Remote{Undefined: tc.undefined}
			if tc.modules {
				spec.Modules = []placementv1.RemoteModule{{Name: "main", Rego: "package fleet"}}
			}
			p := f.put(t, "p", spec)
			got := p.engine.Probe(t.Context(), p.remote)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if h := p.Health(); h.Err != nil || h.BreakerOpen {
				t.Errorf("the probe counts: %+v", h)
			}
		})
	}
}
