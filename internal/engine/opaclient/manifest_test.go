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

package opaclient

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
)

func TestManifestHas(t *testing.T) {
	nodes := policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	deployments := policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespaced: true}
	both := &policy.Binding{PushedTypes: []policy.Resource{deployments, nodes}}
	modules := &policy.Remote{ModulesDigest: "new"}
	full := &Manifest{
		LoadID:  "1",
		Types:   map[string]bool{"/v1/nodes": true, "apps/v1/deployments": true},
		Modules: map[string]ManifestModules{"p": {Digest: "new", Superseded: []string{"old"}}},
	}
	tests := map[string]struct {
		manifest *Manifest
		remote   *policy.Remote
		binding  *policy.Binding

		missing    string
		superseded bool
	}{
		"NothingWanted": {manifest: nil, remote: &policy.Remote{}, binding: &policy.Binding{}},
		"All":           {manifest: full, remote: modules, binding: both},
		"Nothing":       {manifest: nil, remote: modules, binding: both, missing: "does not have everything yet that Berth pushes for the policy: deployments.apps, nodes, the policy's modules"},
		"InPart": {manifest: &Manifest{Types: map[string]bool{"/v1/nodes": true, "apps/v1/deployments": false}}, remote: &policy.Remote{}, binding: both,
			missing: "does not have everything yet that Berth pushes for the policy: deployments.apps"},
		"NotServed": {manifest: full, remote: &policy.Remote{}, binding: &policy.Binding{Missing: []analysis.Read{{Plural: "sites", Listed: true, Group: "example.com"}}},
			missing: "does not have everything yet that Berth pushes for the policy: sites.example.com, which the API server does not serve"},
		"Superseded":    {manifest: full, remote: &policy.Remote{ModulesDigest: "old"}, binding: both, superseded: true},
		"OtherModules":  {manifest: full, remote: &policy.Remote{ModulesDigest: "other"}, binding: both, missing: "does not have everything yet that Berth pushes for the policy: the policy's modules"},
		"LacksAndOlder": {manifest: full, remote: &policy.Remote{ModulesDigest: "old"}, binding: &policy.Binding{PushedTypes: []policy.Resource{{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}}}, missing: "does not have everything yet that Berth pushes for the policy: pods"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			binding := *tc.binding
			binding.Remote = &policy.Remote{Policy: "p", ModulesDigest: tc.remote.ModulesDigest}
			missing, superseded := tc.manifest.Missing(&binding)
			if missing != tc.missing || superseded != tc.superseded {
				t.Errorf("got %q, %v, want %q, %v", missing, superseded, tc.missing, tc.superseded)
			}
		})
	}
}

func TestManifestAreReadAsWritten(t *testing.T) {
	want := &Manifest{
		LoadID: "1", Types: map[string]bool{"apps/v1/deployments": true, "/v1/nodes": false},
		Modules: map[string]ManifestModules{"p": {Digest: "a", Superseded: []string{"b"}}}, FencingToken: map[string]bool{"1-0": true},
	}
	text, err := json.Marshal(map[string]any{"result": want})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name := range want.Types {
		if r, ok := ParseType(name); !ok || TypeName(r) != name {
			t.Errorf("%s is read as %v, %v", name, r, ok)
		}
	}
	if got, err := ParseManifest([]byte(`{}`)); got != nil || err != nil {
		t.Errorf("no document is read as %v, %v", got, err)
	}
	if _, err := ParseManifest([]byte(`{"result": {"types": "x"}}`)); err == nil {
		t.Error("what can't be read is taken for a manifest")
	}
}

func TestAddress(t *testing.T) {
	base, err := url.Parse("https://opa.example:8181/a%20b/")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := APIURL(base, "data", "resources", "apps/v1").String(), "https://opa.example:8181/a%20b/v1/data/resources/apps%2Fv1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
