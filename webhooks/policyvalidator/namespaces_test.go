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

package policyvalidator_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// namespaces are the existing namespaces, by name. If it is nil, they can't be read.
type namespaces map[string]map[string]string

func (n namespaces) All(context.Context) (iter.Seq2[string, map[string]string], error) {
	if n == nil {
		return nil, errors.New("not synced")
	}
	return maps.All(n), nil
}

// scopes serves namespaced ConfigMaps and cluster-scoped Nodes.
type scopes struct{ catalog }

func (*scopes) ByPlural(plural string) []policy.Resource {
	switch plural {
	case "configmaps", "nodes":
		return []policy.Resource{{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: plural}, Namespaced: plural == "configmaps"}}
	}
	return nil
}

func (s *scopes) Exact(r schema.GroupVersionResource) (policy.Resource, bool) {
	if r.Group == "placement.berth.dev" {
		return policy.Resource{GroupVersionResource: r, Namespaced: r.Resource == "scopedquotas"}, true
	}
	found := s.ByPlural(r.Resource)
	return policy.Resource{GroupVersionResource: r, Namespaced: len(found) > 0 && found[0].Namespaced}, len(found) > 0
}

func TestWarnOfNamespaces(t *testing.T) {
	existing := namespaces{"shop": nil, "settings-of-shops": nil}
	tests := map[string]struct {
		reads string
		none  bool
		want  string
	}{
		"Swapped": {reads: `data.kubernetes.configmaps["placement-settings"]["shop"].data.zone`,
			want: `p.rego:2:21: data.kubernetes.configmaps["placement-settings"]["shop"] is undefined until the namespace placement-settings exists: the first key is the namespace; did you mean data.kubernetes.configmaps["shop"]["placement-settings"]?`},
		"Misspelt":      {reads: `data.kubernetes.configmaps["settings-of-shop"].x.data.zone`, want: `did you mean data.kubernetes.configmaps["settings-of-shops"]["x"]?`},
		"Far":           {reads: `data.kubernetes.configmaps["nowhere"][input.metadata.name].data.zone`, want: `data.kubernetes.configmaps["nowhere"] is undefined until the namespace nowhere exists: the first key is the namespace`},
		"GroupVersion":  {reads: `data.resources.v1.configmaps.x.shop.data.zone`, want: `did you mean data.resources["v1"].configmaps["shop"]["x"]?`},
		"Quotas":        {reads: `data.berth.quotas.gold.shop.used.pods`, want: `did you mean data.berth.quotas["shop"]["gold"]?`},
		"Exists":        {reads: `data.kubernetes.configmaps.shop.x.data.zone`},
		"Dynamic":       {reads: `data.kubernetes.configmaps[input.metadata.namespace].x.data.zone`},
		"ClusterScoped": {reads: `data.kubernetes.nodes.a.metadata.name`},
		"ClusterQuotas": {reads: `data.berth.clusterquotas.gold.used.pods`},
		"Unknown":       {reads: `data.kubernetes.configmaps.x.y.data.zone`, none: true, want: "cannot check that the namespaces that the policy reads exist: not synced"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &scopes{}, Checker: allows(), Namespaces: existing}
			if tc.none {
				v.Namespaces = namespaces(nil)
			}
			warnings, err := v.ValidateCreate(t.Context(), newPolicy(`package p
annotations["a"] := `+tc.reads))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(warnings, "\n"); tc.want == "" && got != "" || !strings.Contains(got, tc.want) || len(warnings) > 1 {
				t.Errorf("warnings %q, want %q", warnings, tc.want)
			}
		})
	}
}
