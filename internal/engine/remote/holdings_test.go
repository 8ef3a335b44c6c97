package remote

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy"
)

func TestHoldingsHas(t *testing.T) {
	nodes := policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	deployments := policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespaced: true}
	both := &policy.Binding{Supplies: []policy.Resource{deployments, nodes}}
	modules := &policy.Remote{ModulesDigest: "new"}
	full := &holdings{
		Load:    "1",
		Types:   map[string]bool{"/v1/nodes": true, "apps/v1/deployments": true},
		Modules: map[string]heldModules{"p": {Digest: "new", Superseded: []string{"old"}}},
	}
	tests := map[string]struct {
		holdings *holdings
		remote   *policy.Remote
		binding  *policy.Binding

		missing    string
		superseded bool
	}{
		"NothingWanted": {holdings: nil, remote: &policy.Remote{}, binding: &policy.Binding{}},
		"All":           {holdings: full, remote: modules, binding: both},
		"Nothing":       {holdings: nil, remote: modules, binding: both, missing: "does not have yet deployments.apps, nodes, the policy's modules"},
		"InPart": {holdings: &holdings{Types: map[string]bool{"/v1/nodes": true, "apps/v1/deployments": false}}, remote: &policy.Remote{}, binding: both,
			missing: "does not have yet deployments.apps"},
		"NotServed": {holdings: full, remote: &policy.Remote{}, binding: &policy.Binding{Missing: []policy.Read{{Plural: "sites", Listed: true, Group: "example.com"}}},
			missing: "does not have yet sites.example.com, which the API server does not serve"},
		"Superseded":    {holdings: full, remote: &policy.Remote{ModulesDigest: "old"}, binding: both, superseded: true},
		"OtherModules":  {holdings: full, remote: &policy.Remote{ModulesDigest: "other"}, binding: both, missing: "does not have yet the policy's modules"},
		"LacksAndOlder": {holdings: full, remote: &policy.Remote{ModulesDigest: "old"}, binding: &policy.Binding{Supplies: []policy.Resource{{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}}}, missing: "does not have yet pods"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			missing, superseded := tc.holdings.has("p", tc.remote, tc.binding)
			if missing != tc.missing || superseded != tc.superseded {
				t.Errorf("got %q, %v, want %q, %v", missing, superseded, tc.missing, tc.superseded)
			}
		})
	}
}

func TestHoldingsAreReadAsWritten(t *testing.T) {
	want := &holdings{
		Load: "1", Types: map[string]bool{"apps/v1/deployments": true, "/v1/nodes": false},
		Modules: map[string]heldModules{"p": {Digest: "a", Superseded: []string{"b"}}}, Turn: map[string]bool{"1-0": true},
	}
	text, err := json.Marshal(map[string]any{"result": want})
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseHoldings(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name := range want.Types {
		if r, ok := parseType(name); !ok || typeName(r) != name {
			t.Errorf("%s is read as %v, %v", name, r, ok)
		}
	}
	if got, err := parseHoldings([]byte(`{}`)); got != nil || err != nil {
		t.Errorf("no document is read as %v, %v", got, err)
	}
	if _, err := parseHoldings([]byte(`{"result": {"types": "x"}}`)); err == nil {
		t.Error("what can't be read is taken for holdings")
	}
}

func TestAddress(t *testing.T) {
	base, err := url.Parse("https://opa.example:8181/a%20b/")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := address(base, "v1", "data", "resources", "apps/v1").String(), "https://opa.example:8181/a%20b/v1/data/resources/apps%2Fv1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
