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

package quotaspec_test

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/webhooks/quotaspec"
)

// object returns an object of a kind with a spec in YAML. It is in the namespace shop if the kind is namespaced.
func object(t *testing.T, scheme *runtime.Scheme, kind, name, spec string) client.Object {
	t.Helper()
	made, err := scheme.New(placementv1.GroupVersion.WithKind(kind))
	if err != nil {
		t.Fatal(err)
	}
	out, _ := made.(client.Object)
	namespace := ""
	if kind == "ScopedQuota" {
		namespace = "shop"
	}
	text := fmt.Sprintf("apiVersion: placement.berth.dev/v1alpha1\nkind: %s\nmetadata: {name: %s, namespace: %q}\nspec: %s", kind, name, namespace, spec)
	if err := yaml.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCoverage(t *testing.T) {
	const (
		scoped, cluster, limited = "ScopedQuota", "ClusterScopedQuota", "LimitedResource"
		podsLimited              = `{resource: pods, matchContains: [count/pods]}`
		tried                    = `{mode: Warn, hard: {count/pods: 1}}`
	)
	type spec struct{ kind, name, spec string }
	for name, tc := range map[string]struct {
		exists  []spec
		applied spec
		want    []string
	}{
		"no limits":               {nil, spec{scoped, "q", tried}, nil},
		"no quotas":               {nil, spec{limited, "l", podsLimited}, nil},
		"quota that warns":        {[]spec{{limited, "l", podsLimited}}, spec{scoped, "q", tried}, []string{"LimitedResource l denies in namespace shop what ScopedQuota q would cover (count/pods): a quota in mode Warn"}},
		"limit":                   {[]spec{{scoped, "q", tried}}, spec{limited, "l", podsLimited}, []string{"LimitedResource l denies in namespace shop what ScopedQuota q would cover"}},
		"quota becomes enforced":  {[]spec{{limited, "l", podsLimited}, {scoped, "q", tried}}, spec{scoped, "q", `{hard: {count/pods: 1}}`}, nil},
		"another covers":          {[]spec{{limited, "l", podsLimited}, {scoped, "r", `{mode: Enforce, hard: {count/pods: 1}}`}}, spec{scoped, "q", tried}, nil},
		"a shared one covers":     {[]spec{{limited, "l", podsLimited}, {cluster, "r", `{hard: {count/pods: 1}}`}}, spec{scoped, "q", tried}, nil},
		"a shared one elsewhere":  {[]spec{{limited, "l", podsLimited}, {cluster, "r", `{hard: {count/pods: 1}, namespaceSelector: {matchLabels: {team: none}}}`}}, spec{scoped, "q", tried}, []string{"ScopedQuota q"}},
		"limit holds elsewhere":   {[]spec{{limited, "l", `{resource: pods, matchContains: [count/pods], namespaceSelector: {matchLabels: {team: platform}}}`}}, spec{scoped, "q", tried}, nil},
		"shared quota":            {[]spec{{limited, "l", podsLimited}}, spec{cluster, "q", `{mode: Warn, hard: {count/pods: 1}, namespaceSelector: {}}`}, []string{"in namespace shop what ClusterScopedQuota q would cover"}},
		"others' gaps are theirs": {[]spec{{limited, "l", podsLimited}, {scoped, "q", tried}}, spec{scoped, "r", `{mode: Warn, hard: {count/configmaps: 1}}`}, nil},
		"at most three are named": {[]spec{{limited, "a", podsLimited}, {limited, "b", podsLimited}, {limited, "c", podsLimited}, {limited, "d", podsLimited}}, spec{scoped, "q", tried},
			[]string{"LimitedResource a", "LimitedResource b", "LimitedResource c"}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := placementv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			b := fake.NewClientBuilder().WithScheme(scheme)
			for _, s := range tc.exists {
				b.WithObjects(object(t, scheme, s.kind, s.name, s.spec))
			}
			h := &quotaspec.Handler{
				Catalog: world{}, Evaluators: quota.NewEvaluators(clock.RealClock{}, quota.Devices{}), Namespaces: world{}, Classes: world{},
				OwnNamespace: "berth-system", Decoder: admission.NewDecoder(scheme), Live: b.Build(),
			}
			raw, err := yaml.Marshal(object(t, scheme, tc.applied.kind, tc.applied.name, tc.applied.spec))
			if err != nil {
				t.Fatal(err)
			}
			if raw, err = yaml.YAMLToJSON(raw); err != nil {
				t.Fatal(err)
			}
			r := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind{Group: placementv1.GroupVersion.Group, Version: "v1alpha1", Kind: tc.applied.kind}, Object: runtime.RawExtension{Raw: raw},
			}})
			if !r.Allowed || len(r.Warnings) != len(tc.want) {
				t.Fatalf("allowed: %t, warnings %q, want %q", r.Allowed, r.Warnings, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(r.Warnings[i], want) {
					t.Errorf("warning %q, want %q", r.Warnings[i], want)
				}
			}
		})
	}
}
