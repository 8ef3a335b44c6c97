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

package quota

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Devices is what Kubernetes' evaluator of ResourceClaims reads in addition to a claim: the DeviceClasses, and pods with the claims that
// the scheduler creates for them. Each field may be nil, except for Claims if Pod is set.
type Devices struct {
	// Classes has the DeviceClasses with their extended resources. Without it, no DeviceClass exists.
	Classes *extendedresourcecache.ExtendedResourceCache
	// Settled reports whether Classes is complete. If it is nil, Classes always is.
	Settled func() bool
	// Pod returns a pod. With Pod and Claims, what a pod takes is not counted again for a claim that the scheduler creates for its extended
	// resources. If Pod is nil, or either returns an error, the whole claim is counted.
	Pod func(namespace, name string) (*corev1.Pod, error)
	// Claims returns the ResourceClaims in a namespace whose ClaimOwner is owner, with at least their names and creation times.
	Claims func(namespace string, owner types.UID) ([]*resourcev1.ResourceClaim, error)
}

// evaluator returns Kubernetes' evaluator of ResourceClaims.
func (d Devices) evaluator() upstream.Evaluator {
	if d.Pod == nil {
		return core.NewResourceClaimEvaluator(nil, d.Classes, nil, nil)
	}
	return core.NewResourceClaimEvaluator(nil, d.Classes, podGetter(d.Pod), d.Claims)
}

// Settled reports whether all DeviceClasses are known. Until then, it is not known which types a quota counts.
func (e *Evaluators) Settled() bool { return e.devices.Settled == nil || e.devices.Settled() }

// podGetter makes a lister of a function that returns one pod. It can't list.
type podGetter func(namespace, name string) (*corev1.Pod, error)

var errNotListed = errors.New("pods are not listed here")

// List implements corev1listers.PodLister. It always fails.
func (podGetter) List(labels.Selector) ([]*corev1.Pod, error) { return nil, errNotListed }

// Pods returns a lister that gets the pods of one namespace. It implements corev1listers.PodLister.
func (get podGetter) Pods(namespace string) corev1listers.PodNamespaceLister {
	return namespacedPodGetter{get: get, namespace: namespace}
}

// namespacedPodGetter gets the pods of one namespace.
type namespacedPodGetter struct {
	get       podGetter
	namespace string
}

// List implements corev1listers.PodNamespaceLister. It always fails.
func (namespacedPodGetter) List(labels.Selector) ([]*corev1.Pod, error) { return nil, errNotListed }

// Get returns the pod with a name in the namespace. It implements corev1listers.PodNamespaceLister.
func (l namespacedPodGetter) Get(name string) (*corev1.Pod, error) { return l.get(l.namespace, name) }

// CanRead reports whether the evaluators can measure objects of a type in its version. The evaluator of ResourceClaims reads v1 only, so
// that API servers before 1.34 serve no ResourceClaims that can be measured.
func CanRead(r schema.GroupVersionResource) bool {
	return r.GroupResource() != deviceClaims || r.Version == resourcev1.SchemeGroupVersion.Version
}

// ClaimOwner returns the UID of the pod for whose extended resources the scheduler created the claim c; "" if it did not create c.
func ClaimOwner(c metav1.Object) types.UID {
	owner := metav1.GetControllerOfNoCopy(c)
	if c.GetAnnotations()[resourcev1.ExtendedResourceClaimAnnotation] != "true" || owner == nil || owner.Kind != "Pod" ||
		owner.APIVersion != "v1" {
		return ""
	}
	return owner.UID
}

// UnknownDeviceClasses returns the names of the device classes that resource names in hard contain and that do not exist, sorted. It
// returns none until all DeviceClasses are known.
func (e *Evaluators) UnknownDeviceClasses(spec *placementv1.QuotaSpec) []string {
	if !e.Settled() {
		return nil
	}
	var out []string
	for name := range spec.Hard {
		class, found := strings.CutSuffix(string(name), corev1.ResourceClaimsPerClass)
		if !found {
			class, found = strings.CutPrefix(string(name), corev1.ResourceImplicitExtendedClaimsPerClass)
		}
		if found && e.devices.Classes.GetDeviceClass(corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+class)) == nil {
			out = append(out, class)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// deviceName matches what is meant to be the name of devices of a DeviceClass: the class is in front of the domain, or behind the slash.
var deviceName = regexp.MustCompile(`^(?:requests\.)?(?:(.+)\.)?deviceclass(?:es)?\.resource\.(?:k8s|kubernetes)\.io/(.+)$`)

// meantDevices returns the correct form of a resource name that is probably meant to count devices of a DeviceClass, but does not; "" for a
// correct name, and for one that means something else.
func meantDevices(name corev1.ResourceName) string {
	parts := deviceName.FindStringSubmatch(string(name))
	if parts == nil {
		return ""
	}
	meant := corev1.ResourceImplicitExtendedClaimsPerClass + parts[2]
	if class := parts[1]; class != "" || strings.HasPrefix(parts[2], "device") {
		meant = cmp.Or(class, "<class>") + corev1.ResourceClaimsPerClass
	}
	if meant == string(name) {
		return ""
	}
	return meant
}

// MisspeltDevices returns messages about names of hard that count requests of pods for an extended resource, and that are probably meant to
// count devices of a DeviceClass, sorted. Each message starts with the field's path.
func (e *Evaluators) MisspeltDevices(spec *placementv1.QuotaSpec) []string {
	var out []string
	for name := range spec.Hard {
		if meant := meantDevices(name); meant != "" && len(e.counted(name)) > 0 {
			out = append(out, fmt.Sprintf("spec.hard[%s]: this name counts requests of pods for an extended resource, not devices of a DeviceClass "+
				"(did you mean %s?)", name, meant))
		}
	}
	slices.Sort(out)
	return out
}

// MayCountDevices reports whether the quota counts ResourceClaims, or does so once there is a DeviceClass for the extended
// resources that it names.
func (e *Evaluators) MayCountDevices(spec *placementv1.QuotaSpec) bool {
	for name := range spec.Hard {
		extended := strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) && strings.Contains(string(name), "/")
		if extended || e.counts(deviceClaims, name) {
			return true
		}
	}
	return false
}

// measuredClaim returns the parts of a claim that its evaluator reads. The selectors of a claim can be large.
func measuredClaim(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	out := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.Namespace, Name: c.Name, UID: c.UID, CreationTimestamp: c.CreationTimestamp,
	}}
	if owner := metav1.GetControllerOf(c); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	if value, ok := c.Annotations[resourcev1.ExtendedResourceClaimAnnotation]; ok {
		out.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: value}
	}
	for _, r := range c.Spec.Devices.Requests {
		var next resourcev1.DeviceRequest
		if r.Exactly != nil {
			next.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: r.Exactly.DeviceClassName, AllocationMode: r.Exactly.AllocationMode,
				Count: r.Exactly.Count}
		}
		for _, sub := range r.FirstAvailable {
			next.FirstAvailable = append(next.FirstAvailable, resourcev1.DeviceSubRequest{DeviceClassName: sub.DeviceClassName,
				AllocationMode: sub.AllocationMode, Count: sub.Count})
		}
		out.Spec.Devices.Requests = append(out.Spec.Devices.Requests, next)
	}
	return out
}

// claimUsage returns a function that returns the amounts that a ResourceClaim takes, given the meter's own pods and claims at the
// given time. The caller must hold m.mu until the last call of that function.
func (m *Meter) claimUsage(now time.Time) func(*resourcev1.ResourceClaim) corev1.ResourceList {
	type owner struct {
		namespace string
		uid       types.UID
	}
	var owned map[owner][]*resourcev1.ResourceClaim
	evaluator := Devices{
		Classes: m.evaluators.devices.Classes,
		Pod: func(namespace, name string) (*corev1.Pod, error) {
			if t := m.types[pods]; t != nil && t.objects[namespace][name] != nil {
				return t.objects[namespace][name].ownerPod(now), nil
			}
			return nil, apierrors.NewNotFound(pods, name)
		},
		Claims: func(namespace string, uid types.UID) ([]*resourcev1.ResourceClaim, error) {
			if owned == nil {
				owned = map[owner][]*resourcev1.ResourceClaim{}
				for _, objects := range m.types[deviceClaims].objects {
					for _, e := range objects {
						if uid := ClaimOwner(e.claim); uid != "" {
							of := owner{e.claim.Namespace, uid}
							owned[of] = append(owned[of], e.claim)
						}
					}
				}
			}
			return owned[owner{namespace, uid}], nil
		},
	}.evaluator()
	return func(c *resourcev1.ResourceClaim) corev1.ResourceList {
		// The evaluator returns an error only for an object of another type.
		usage, _ := evaluator.Usage(c)
		return usage
	}
}

// ownerPod returns a pod that stands for the measured pod e: the evaluator of ResourceClaims subtracts the same extended resources for
// both.
func (e *objectEntry) ownerPod(now time.Time) *corev1.Pod {
	requests := corev1.ResourceList{}
	for name, amount := range e.usageAt(now) {
		if requested, ok := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix); ok {
			requests[corev1.ResourceName(requested)] = amount
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: e.uid},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status:     corev1.PodStatus{ExtendedResourceClaimStatus: e.extendedClaim},
	}
}
