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

package quotadifferential_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// family is a set of resources that are taken by the same objects.
type family string

const (
	podFamily     family = "pods"
	serviceFamily family = "services"
	claimFamily   family = "claims"
	objectFamily  family = "objects"
	deviceFamily  family = "devices"
	widgetFamily  family = "widgets"
)

// limits are the names of each family, with amounts that a few objects exceed. A namespace has one ConfigMap from the
// start.
var limits = map[family]map[corev1.ResourceName][]string{
	podFamily: {
		"pods": {"0", "1", "2", "3", "5"}, "count/pods": {"2", "3", "6"},
		"cpu": {"300m", "1", "2"}, "requests.cpu": {"250m", "500m", "1", "1500m"}, "limits.cpu": {"500m", "1", "2500m"},
		"memory": {"256Mi", "1Gi"}, "requests.memory": {"300M", "512Mi", "2Gi"}, "limits.memory": {"0", "512Mi", "1Gi", "3G"},
		"requests.ephemeral-storage": {"1Gi", "3G"}, "limits.ephemeral-storage": {"2Gi", "4Gi"},
		"requests.example.com/gpu": {"0", "1", "3"}, "hugepages-2Mi": {"4Mi", "8Mi"}, "requests.hugepages-2Mi": {"4Mi"},
	},
	serviceFamily: {
		"services": {"1", "2", "4"}, "count/services": {"2", "3"}, "services.nodeports": {"0", "1", "3", "5"}, "services.loadbalancers": {"0", "1", "2"},
	},
	claimFamily: {
		"persistentvolumeclaims": {"1", "2", "4"}, "count/persistentvolumeclaims": {"2", "3"}, "requests.storage": {"1Gi", "4Gi", "9G"},
		"gold.storageclass.storage.k8s.io/requests.storage": {"0", "2Gi", "5Gi"}, "gold.storageclass.storage.k8s.io/persistentvolumeclaims": {"0", "1", "2"},
		"silver.storageclass.storage.k8s.io/requests.storage": {"3Gi"},
	},
	objectFamily: {
		"configmaps": {"1", "2", "4"}, "count/configmaps": {"2", "3"}, "secrets": {"0", "1", "3"}, "count/secrets": {"2"},
		"count/deployments.apps": {"0", "1", "2"}, "replicationcontrollers": {"1", "2"},
	},
	// ResourceClaims of the class gpus count as requests.example.com/gpu, too.
	deviceFamily: {
		"count/resourceclaims.resource.k8s.io": {"1", "2", "4"}, "gpus.deviceclass.resource.k8s.io/devices": {"0", "2", "5", "40"},
		"requests.deviceclass.resource.kubernetes.io/gpus": {"1", "3", "33"}, "disks.deviceclass.resource.k8s.io/devices": {"2", "4"},
		"requests.deviceclass.resource.kubernetes.io/disks": {"1", "3"}, "no-such-class.deviceclass.resource.k8s.io/devices": {"1"},
	},
	widgetFamily: {"count/widgets.example.com": {"0", "1", "2"}},
}

// familyOf is the family of a name.
func familyOf(name corev1.ResourceName) family {
	for fam, names := range limits {
		if _, ok := names[name]; ok {
			return fam
		}
	}
	panic(name)
}

// Names that scopes go with, of those that are not qualified.
var (
	scopedPodNames   = []corev1.ResourceName{"pods", "cpu", "requests.cpu", "limits.cpu", "memory", "requests.memory", "limits.memory"}
	scopedClaimNames = []corev1.ResourceName{"persistentvolumeclaims", "requests.storage"}
	// qualifiedNames go with every scope, which some of them never match.
	qualifiedNames = []corev1.ResourceName{
		"count/pods", "requests.example.com/gpu", "count/configmaps", "count/persistentvolumeclaims", "gold.storageclass.storage.k8s.io/requests.storage",
	}
)

// twin is one quota, as both kinds.
type twin struct {
	name     string
	hard     corev1.ResourceList
	scopes   []corev1.ResourceQuotaScope
	selector *corev1.ScopeSelector
	// used is what the ResourceQuota said when it was last looked at.
	used corev1.ResourceList
	// nudges is how often kube-controller-manager was made to count.
	nudges int
}

// nudge is a name in a ResourceQuota's hard of which there is nothing. A change of its amount has everything counted
// again, which kube-controller-manager does not do by itself after every change: resizes, for one.
const nudge corev1.ResourceName = "count/nudges.example.net"

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// chance is true that often in a hundred times.
func chance(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }

// generateTwins returns one to three quotas on these families.
func generateTwins(rng *rand.Rand, families []family) []*twin {
	var out []*twin
	for i := range 1 + rng.IntN(3) {
		fam := pick(rng, families)
		t := &twin{name: "q" + strconv.Itoa(i), hard: corev1.ResourceList{}}
		switch {
		case fam == podFamily && chance(rng, 70):
			t.scopeToPods(rng)
		case fam == claimFamily && chance(rng, 50):
			t.scopeToClaims(rng)
		default:
			t.limit(rng, slices.Sorted(maps.Keys(limits[fam])), 3)
			if chance(rng, 40) {
				t.limit(rng, slices.Sorted(maps.Keys(limits[pick(rng, families)])), 2)
			}
		}
		out = append(out, t)
	}
	return out
}

// limit adds limits on one to most of the names.
func (t *twin) limit(rng *rand.Rand, names []corev1.ResourceName, most int) {
	for range 1 + rng.IntN(most) {
		name := pick(rng, names)
		t.hard[name] = resource.MustParse(pick(rng, limits[familyOf(name)][name]))
	}
}

func (t *twin) scopeToPods(rng *rand.Rand) {
	names := scopedPodNames
	for range 1 + rng.IntN(2) {
		scope := pick(rng, []corev1.ResourceQuotaScope{
			corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeTerminating,
			corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
			corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
		})
		if t.add(rng, scope, []string{"high", "low", "no-such-class"}) && scope == corev1.ResourceQuotaScopeBestEffort {
			names = []corev1.ResourceName{"pods"}
		}
	}
	t.limit(rng, names, 3)
	if chance(rng, 25) {
		t.limit(rng, qualifiedNames, 2)
	}
}

func (t *twin) scopeToClaims(rng *rand.Rand) {
	t.add(rng, corev1.ResourceQuotaScopeVolumeAttributesClass, []string{"fast", "slow", "no-such-class"})
	t.limit(rng, scopedClaimNames, 2)
	if chance(rng, 25) {
		t.limit(rng, qualifiedNames, 2)
	}
}

// add adds a scope, unless one that is there conflicts with it.
func (t *twin) add(rng *rand.Rand, scope corev1.ResourceQuotaScope, classes []string) bool {
	conflicts := map[corev1.ResourceQuotaScope]corev1.ResourceQuotaScope{
		corev1.ResourceQuotaScopeBestEffort: corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeNotBestEffort: corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeTerminating: corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotTerminating: corev1.ResourceQuotaScopeTerminating,
	}
	if slices.Contains(t.scopes, scope) || slices.Contains(t.scopes, conflicts[scope]) {
		return false
	}
	if chance(rng, 35) {
		t.scopes = append(t.scopes, scope)
		return true
	}
	r := corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}
	if scope == corev1.ResourceQuotaScopePriorityClass || scope == corev1.ResourceQuotaScopeVolumeAttributesClass {
		r.Operator = pick(rng, []corev1.ScopeSelectorOperator{
			corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist,
		})
	}
	if r.Operator == corev1.ScopeSelectorOpIn || r.Operator == corev1.ScopeSelectorOpNotIn {
		for _, i := range rng.Perm(len(classes))[:1+rng.IntN(2)] {
			r.Values = append(r.Values, classes[i])
		}
	}
	if t.selector == nil {
		t.selector = &corev1.ScopeSelector{}
	}
	for _, e := range t.selector.MatchExpressions {
		if e.ScopeName == conflicts[scope] {
			return false
		}
	}
	t.selector.MatchExpressions = append(t.selector.MatchExpressions, r)
	return true
}

func (t *twin) String() string {
	// Marshalling can't fail.
	text, _ := yaml.Marshal(map[string]any{t.name: t.core("").Spec})
	return string(text)
}

func (t *twin) core(namespace string) *corev1.ResourceQuota {
	hard := t.hard.DeepCopy()
	if t.nudges > 0 {
		hard[nudge] = resource.MustParse(strconv.Itoa(t.nudges))
	}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: t.name},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard, Scopes: t.scopes, ScopeSelector: t.selector},
	}
}

func (t *twin) ours(namespace string) *placementv1.ScopedQuota {
	out := &placementv1.ScopedQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: t.name},
		Spec:       placementv1.ScopedQuotaSpec{QuotaSpec: placementv1.QuotaSpec{Hard: t.hard.DeepCopy(), Scopes: t.scopes}},
	}
	if t.selector != nil {
		out.Spec.ScopeSelector = &placementv1.ScopeSelector{}
		for _, e := range t.selector.MatchExpressions {
			out.Spec.ScopeSelector.MatchExpressions = append(out.Spec.ScopeSelector.MatchExpressions,
				placementv1.ScopeRequirement{ScopeName: e.ScopeName, Operator: e.Operator, Values: e.Values})
		}
	}
	return out
}

// create makes both quotas and waits until ours is in force.
func (t *twin) create(ctx context.Context, coreNamespace, ourNamespace string) {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, t.core(coreNamespace))).To(Succeed(), t.String)
	t.createOurs(ctx, ourNamespace)
}

// createOurs makes the ScopedQuota and waits until it is in force. One that can't count anything is never Ready.
func (t *twin) createOurs(ctx context.Context, namespace string) {
	GinkgoHelper()
	q := t.ours(namespace)
	Expect(f.Client.Create(ctx, q)).To(Succeed(), t.String)
	Eventually(func(ctx context.Context) (bool, error) {
		err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
		ready := meta.FindStatusCondition(q.Status.Conditions, placementv1.ConditionReady)
		return ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == placementv1.ReasonNothingMatched), err
	}).WithContext(ctx).Should(BeTrue(), func() string { return fmt.Sprint(t, q.Status.Conditions) })
}

// apply writes hard to the quota in a namespace.
func (t *twin) apply(ctx context.Context, q client.Object) error {
	var spec any
	switch q := q.(type) {
	case *corev1.ResourceQuota:
		spec = q.Spec.Hard
	case *placementv1.ScopedQuota:
		spec = q.Spec.Hard
	}
	return f.Client.Patch(ctx, q, client.RawPatch(types.MergePatchType, encode(map[string]any{"spec": map[string]any{"hard": spec}})))
}
