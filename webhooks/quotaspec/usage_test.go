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
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/webhooks/quotaspec"
)

// TestUsage checks what is said of amounts that are less than what is used now: by the quota itself, or by another one that counts the
// same.
func TestUsage(t *testing.T) {
	const (
		scoped, cluster = "ScopedQuota", "ClusterScopedQuota"
		few             = "spec.hard[pods]: 60 is less than what is used now, which is 84: nothing more is admitted until less is used"
		retail          = "namespaceSelector: {matchLabels: {team: retail}}"
	)
	for name, tc := range map[string]struct {
		// stored is the spec of another quota, which has counted 84 pods; "" for none.
		kind, spec, stored string
		// own reports whether the quota itself has counted them.
		own  bool
		want []string
	}{
		"own":             {scoped, `{hard: {pods: 60}}`, "", true, []string{few}},
		"own, enough":     {scoped, `{hard: {pods: 84, services: 1}}`, "", true, nil},
		"own, none":       {scoped, `{hard: {pods: 0}}`, "", true, nil},
		"implausible":     {scoped, `{hard: {pods: 500m}}`, "", true, []string{"spec.hard[pods]: 500m is the number 0.5, but objects take whole numbers only: it limits like the next smaller one"}},
		"own, tried out":  {scoped, `{hard: {pods: 60}, mode: Warn}`, "", true, nil},
		"other":           {scoped, `{hard: {pods: 60}}`, `{hard: {pods: 100}}`, false, []string{few}},
		"other scopes":    {scoped, `{hard: {pods: 60}, scopes: [NotTerminating]}`, `{hard: {pods: 100}}`, false, nil},
		"new":             {scoped, `{hard: {pods: 60}}`, "", false, nil},
		"own, of cluster": {cluster, `{hard: {pods: 60}, ` + retail + `}`, "", true, []string{few}},
		"same selector":   {cluster, `{hard: {pods: 60}, ` + retail + `}`, `{hard: {pods: 100}, ` + retail + `}`, false, []string{few}},
		"other selector":  {cluster, `{hard: {pods: 60}, ` + retail + `}`, `{hard: {pods: 100}, namespaceSelector: {}}`, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, placementv1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			used := func(o client.Object) client.Object {
				q, _ := o.(placementv1.Quota)
				q.QuotaStatus().Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("84")}
				return o
			}
			live := fake.NewClientBuilder().WithScheme(scheme)
			if tc.stored != "" {
				live.WithObjects(used(object(t, scheme, tc.kind, "stored", tc.stored)))
			}
			h := &quotaspec.Handler{
				Catalog: world{}, Evaluators: quota.NewEvaluators(clock.RealClock{}, quota.Devices{}), Namespaces: world{}, Live: live.Build(),
			}
			q := object(t, scheme, tc.kind, "q", tc.spec)
			if tc.own {
				q = used(q)
			}
			got := append(h.Warnings(t.Context(), q), h.WarningsOfExisting(t.Context(), q)...)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExtendedWithoutNodes checks which names of extended resources are misspelt where no nodes are known.
func TestExtendedWithoutNodes(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := placementv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	h := &quotaspec.Handler{Catalog: world{}, Evaluators: quota.NewEvaluators(clock.RealClock{}, quota.Devices{})}
	for spec, want := range map[string][]string{
		`{hard: {requests.nvidia.com/gpus: 4}}`:                               {"spec.hard[requests.nvidia.com/gpus]: the resource nvidia.com/gpus is not a common one, and probably misspelt; did you mean requests.nvidia.com/gpu?"},
		`{hard: {requests.nvidia.com/gpu.shared: 4, requests.x.com/gpus: 4}}`: nil,
	} {
		if diff := cmp.Diff(want, h.Warnings(t.Context(), object(t, scheme, "ScopedQuota", "q", spec)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", spec, diff)
		}
	}
	for spec, want := range map[string][]string{
		`{resource: pods, matchContains: [nvidia.com/GPU]}`:           {"spec.matchContains[0]: the resource nvidia.com/GPU is not a common one, and probably misspelt; did you mean nvidia.com/gpu?"},
		`{resource: pods, matchContains: [nvidia.com/mig, amd.com/]}`: nil,
	} {
		if diff := cmp.Diff(want, h.Warnings(t.Context(), object(t, scheme, "LimitedResource", "q", spec)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", spec, diff)
		}
	}
}
