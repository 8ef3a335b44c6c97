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

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestQuotasOfANamespace checks which quotas limit a namespace, what is left of them, and what a user is told who may not read some.
func TestQuotasOfANamespace(t *testing.T) {
	list := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(n)}
	}
	shared := func(name, team string, used ...placementv1.NamespaceUsage) *placementv1.ClusterScopedQuota {
		return &placementv1.ClusterScopedQuota{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: placementv1.ClusterScopedQuotaSpec{
				QuotaSpec:         placementv1.QuotaSpec{Hard: list("10"), Mode: placementv1.ModeWarn},
				NamespaceSelector: &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"team": placementv1.LabelValue(team)}},
			},
			Status: placementv1.ClusterScopedQuotaStatus{QuotaStatus: placementv1.QuotaStatus{Used: list("7")}, Namespaces: used},
		}
	}
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "web"}}},
		&placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}, Spec: placementv1.ScopedQuotaSpec{QuotaSpec: placementv1.QuotaSpec{Hard: list("2")}}},
		&placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "other"}, Spec: placementv1.ScopedQuotaSpec{QuotaSpec: placementv1.QuotaSpec{Hard: list("2")}}},
		shared("team", "web", placementv1.NamespaceUsage{Namespace: "shop", Used: list("3")}, placementv1.NamespaceUsage{Namespace: "cart", Used: list("4")}),
		shared("bank", "bank", placementv1.NamespaceUsage{Namespace: "bank", Used: list("7")}),
	}
	own := limitedAmount{Quota: "ScopedQuota own", Mode: placementv1.ModeEnforce, Resource: "pods", Used: "0", Hard: "2", Left: "2"}
	team := limitedAmount{Quota: "ClusterScopedQuota team", Mode: placementv1.ModeWarn, Resource: "pods", Used: "7", UsedHere: "3", Hard: "10", Left: "3"}
	for name, test := range map[string]struct {
		forbidden string
		want      []limitedAmount
		missing   string
	}{
		"All":      {"", []limitedAmount{own, team}, ""},
		"NoShared": {"clusterscopedquotas", []limitedAmount{own}, "berth-clusterscopedquota-viewer-role"},
		"NoOwn":    {"scopedquotas", []limitedAmount{team}, "You may not list scopedquotas in namespace shop"},
		"NoLabels": {"namespaces", []limitedAmount{own, team}, ""},
	} {
		scheme := runtime.NewScheme()
		if err := clientgoscheme.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		if err := placementv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		client := dynamicfake.NewSimpleDynamicClient(scheme, objects...)
		client.PrependReactor("*", test.forbidden, func(a clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
		})
		got := &namespaceQuotas{Namespace: "shop"}
		if err := got.read(t.Context(), client); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got.Amounts); diff != "" {
			t.Errorf("%s: amounts (-want +got):\n%s", name, diff)
		}
		if missing := strings.Join(got.Missing, " "); (missing == "") != (test.missing == "") || !strings.Contains(missing, test.missing) {
			t.Errorf("%s: missing is %q, want %q", name, missing, test.missing)
		}
	}
}
