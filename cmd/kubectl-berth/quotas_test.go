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
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	own := limitedAmount{Quota: "ScopedQuota own", Mode: placementv1.ModeEnforce, Resource: "pods", Used: "1", UsedHere: "1", Hard: "2", Left: "1"}
	team := limitedAmount{Quota: "ClusterScopedQuota team", Mode: placementv1.ModeWarn, Resource: "pods", Used: "7", UsedHere: "3", Hard: "10", Left: "3"}
	unused := limitedAmount{Quota: "ClusterScopedQuota unused", Mode: placementv1.ModeWarn, Resource: "pods", Used: "7", UsedHere: "0", Hard: "10", Left: "3"}
	fresh := limitedAmount{Quota: "ScopedQuota fresh", Mode: placementv1.ModeEnforce, Resource: "pods", Hard: "2"}
	changed := limitedAmount{Quota: "ScopedQuota changed", Mode: placementv1.ModeEnforce, Resource: "pods", Hard: "2"}
	everyone := limitedAmount{Quota: "ClusterScopedQuota everyone", Mode: placementv1.ModeWarn, Resource: "pods", Used: "7", UsedHere: "0", Hard: "10", Left: "3"}
	before := limitedAmount{Quota: "ClusterScopedQuota before", Mode: placementv1.ModeWarn, Resource: "pods", Used: "7", Hard: "10", Left: "3"}
	after := limitedAmount{Quota: "ClusterScopedQuota after", Mode: placementv1.ModeWarn, Resource: "pods", Used: "7", UsedHere: "0", Hard: "10", Left: "3"}
	shop, cart := placementv1.NamespaceUsage{Namespace: "shop", Used: podList("3")}, placementv1.NamespaceUsage{Namespace: "cart", Used: podList("4")}
	for name, test := range map[string]struct {
		namespace string
		forbidden string
		objects   []runtime.Object
		want      []limitedAmount
		missing   string
	}{
		"All": {
			objects: []runtime.Object{scoped("shop", "own", 0), scoped("bank", "other", 0), shared("team", "web", shop, cart), shared("bank", "bank")},
			want:    []limitedAmount{team, own},
		},
		"NoShared": {
			forbidden: "clusterscopedquotas", objects: []runtime.Object{scoped("shop", "own", 0), shared("team", "web", shop)},
			want: []limitedAmount{own}, missing: "bind the ClusterRole whose name ends with clusterscopedquota-viewer-role to you",
		},
		"NoOwn": {
			forbidden: "scopedquotas", objects: []runtime.Object{scoped("shop", "own", 0), shared("team", "web", shop)},
			want: []limitedAmount{team}, missing: "You may not list scopedquotas in namespace shop",
		},
		"NoLabels": {
			forbidden: "namespaces", objects: []runtime.Object{shared("team", "web", shop), shared("everyone", "")},
			want: []limitedAmount{everyone, team},
		},
		"NoLabelsOfTheUnused": {
			forbidden: "namespaces", objects: []runtime.Object{shared("team", "web", shop), shared("unused", "web"), shared("bank", "bank")},
			want: []limitedAmount{team}, missing: "You may not get namespace shop, so its labels are unknown. ClusterScopedQuotas that may select it by them, and are missing: 2.",
		},
		"Unused":     {objects: []runtime.Object{shared("unused", "web", cart)}, want: []limitedAmount{unused}},
		"NotCounted": {objects: []runtime.Object{scoped("shop", "fresh", -1)}, want: []limitedAmount{fresh}},
		"OlderCount": {objects: []runtime.Object{scoped("shop", "changed", 6)}, want: []limitedAmount{changed}},
		"TooManyNamespaces": {
			objects: []runtime.Object{shared("before", "web", hundred("a")...), shared("after", "web", hundred("z")...)},
			want:    []limitedAmount{after, before},
		},
		"System": {
			namespace: "kube-system", objects: []runtime.Object{scoped("kube-system", "own", 0), shared("everyone", "")},
			want: []limitedAmount{own}, missing: "No ClusterScopedQuota limits namespace kube-system",
		},
		"Berth": {
			namespace: "berth-system", objects: []runtime.Object{scoped("berth-system", "own", 0), shared("everyone", "")},
			missing: "Berth runs in namespace berth-system, so no quota limits it.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := &namespaceQuotas{Namespace: cmp.Or(test.namespace, "shop")}
			labels := map[string]string{"team": "web"}
			objects := append(test.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: got.Namespace, Labels: labels}})
			if err := got.read(t.Context(), clientWithout(t, test.forbidden, objects...), "berth-system"); err != nil {
				t.Fatal(err)
			}
			// The order of the fake client varies.
			slices.SortStableFunc(got.Amounts, func(a, b limitedAmount) int { return strings.Compare(a.Quota, b.Quota) })
			if diff := gocmp.Diff(test.want, got.Amounts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
			if missing := strings.Join(got.Missing, " "); (missing == "") != (test.missing == "") || !strings.Contains(missing, test.missing) {
				t.Errorf("missing is %q, want %q", missing, test.missing)
			}
		})
	}
}

func podList(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(n)}
}

// scoped returns a ScopedQuota of 2 pods, of which 1 is used. The count is for the generation counted, and the newest generation is 0, or 7
// if counted is more than 0.
func scoped(namespace, name string, counted int64) *placementv1.ScopedQuota {
	out := &placementv1.ScopedQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       placementv1.ScopedQuotaSpec{QuotaSpec: placementv1.QuotaSpec{Hard: podList("2")}},
		Status:     placementv1.ScopedQuotaStatus{QuotaStatus: placementv1.QuotaStatus{ObservedGeneration: counted}},
	}
	if counted >= 0 {
		out.Status.Used = podList("1")
	}
	if counted > 0 {
		out.Generation = 7
	}
	return out
}

// shared returns a ClusterScopedQuota of 10 pods, of which 7 are used, for the namespaces of a team, or for all if team is "".
func shared(name, team string, used ...placementv1.NamespaceUsage) *placementv1.ClusterScopedQuota {
	out := &placementv1.ClusterScopedQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       placementv1.ClusterScopedQuotaSpec{QuotaSpec: placementv1.QuotaSpec{Hard: podList("10"), Mode: placementv1.ModeWarn}},
		Status:     placementv1.ClusterScopedQuotaStatus{QuotaStatus: placementv1.QuotaStatus{Used: podList("7")}, Namespaces: used},
	}
	if team != "" {
		out.Spec.NamespaceSelector = &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"team": placementv1.LabelValue(team)}}
	}
	return out
}

// hundred returns the usage of as many namespaces as a status lists, whose names begin with a prefix.
func hundred(prefix string) []placementv1.NamespaceUsage {
	out := make([]placementv1.NamespaceUsage, placementv1.MaxNamespaces)
	for i := range out {
		out[i] = placementv1.NamespaceUsage{Namespace: fmt.Sprintf("%s%02d", prefix, i), Used: podList("1")}
	}
	return out
}

// clientWithout returns a client of objects, which may not read a resource.
func clientWithout(t *testing.T, forbidden string, objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := placementv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := dynamicfake.NewSimpleDynamicClient(scheme, objects...)
	if forbidden != "" {
		client.PrependReactor("*", forbidden, func(a clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
		})
	}
	return client
}

// TestPrintQuotas checks that an amount that is not known is not printed as another one.
func TestPrintQuotas(t *testing.T) {
	var out bytes.Buffer
	printQuotas(newPrinter(&out), &namespaceQuotas{Namespace: "shop", Amounts: []limitedAmount{
		{Quota: "ScopedQuota fresh", Mode: placementv1.ModeEnforce, Resource: "pods", Hard: "2"},
		{Quota: "ClusterScopedQuota team", Mode: placementv1.ModeWarn, Resource: "pods", Used: "7", Hard: "10", Left: "3"},
	}})
	const want = `QUOTA MODE RESOURCE USED HERE HARD LEFT
ScopedQuota fresh Enforce pods unknown unknown 2 unknown
ClusterScopedQuota team Warn pods 7 unknown 10 3
`
	got := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
