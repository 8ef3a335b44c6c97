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

package quota_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
)

var update = flag.Bool("update", false, "write the golden files")

func newCompiler() *quota.Compiler {
	return quota.NewCompiler(embedded.New(embedded.NewData(), embedded.Options{}).PrepareGenerated)
}

// TestGolden compares generated modules with golden files, because administrators see their text.
func TestGolden(t *testing.T) {
	in := func(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) placementv1.ScopeRequirement {
		return placementv1.ScopeRequirement{ScopeName: scope, Operator: operator, Values: values}
	}
	quotas := map[string]placementv1.QuotaSpec{
		"empty":  {},
		"counts": {Hard: quotatest.Amounts("pods", "10", "requests.cpu", "1500m", "count/widgets.example.com", "3")},
		"scopes": {
			Hard:   quotatest.Amounts("pods", "1"),
			Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopePriorityClass},
		},
		"selector": {
			Hard: quotatest.Amounts("pods", "10"),
			ScopeSelector: &placementv1.ScopeSelector{MatchExpressions: []placementv1.ScopeRequirement{
				in(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn, "gold", "cluster-services", "gold"),
				in(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpNotIn, "bronze"),
				in(corev1.ResourceQuotaScopeTerminating, corev1.ScopeSelectorOpExists),
			}},
		},
		"volumes": {
			Hard: quotatest.Amounts("requests.storage", "10Gi"),
			ScopeSelector: &placementv1.ScopeSelector{MatchExpressions: []placementv1.ScopeRequirement{
				in(corev1.ResourceQuotaScopeVolumeAttributesClass, corev1.ScopeSelectorOpDoesNotExist),
			}},
		},
	}
	limits := map[string]placementv1.LimitedResourceSpec{
		"contains": {Resource: "persistentvolumeclaims", MatchContains: []string{".storageclass.storage.k8s.io/requests.storage", `"quoted"`}},
		"scopes": {Resource: "pods", MatchScopes: []placementv1.ScopeRequirement{
			in(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn, "cluster-services"),
			in(corev1.ResourceQuotaScopeBestEffort, corev1.ScopeSelectorOpExists),
		}},
	}
	compiler := newCompiler()
	for name, spec := range quotas {
		q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("q" + name)}}
		q.Spec.QuotaSpec = spec
		t.Run("quota_"+name, func(t *testing.T) {
			rules, err := compiler.Quota(t.Context(), q)
			golden(t, "quota_"+name, rules, err)
		})
	}
	for name, spec := range limits {
		l := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("l" + name)}, Spec: spec}
		t.Run("limit_"+name, func(t *testing.T) {
			rules, err := compiler.Limit(t.Context(), l)
			golden(t, "limit_"+name, rules, err)
		})
	}
}

func golden(t *testing.T, name string, rules *quota.Rules, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "modules", name+".rego")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(rules.Module.Rego), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), rules.Module.Rego); diff != "" {
		t.Errorf("-want +got; write the file anew with -update if the change is meant:\n%s", diff)
	}
}

// TestDigestIsOfTheSpec checks that equal specs share a compiled module, whatever objects they belong to and in
// whatever order their maps are iterated.
func TestDigestIsOfTheSpec(t *testing.T) {
	compiler := newCompiler()
	digest := func(ctx context.Context, uid, hardPods string) string {
		q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: uid, UID: types.UID(uid)}}
		q.Spec.Hard = quotatest.Amounts("requests.cpu", "2", "pods", hardPods, "requests.memory", "1Gi")
		rules, err := compiler.Quota(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		return rules.Module.Digest
	}
	if digest(t.Context(), "a", "1") != digest(t.Context(), "b", "1") {
		t.Error("equal specs differ")
	}
	if digest(t.Context(), "c", "1") == digest(t.Context(), "d", "2") {
		t.Error("different specs are equal")
	}
}
