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
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// bytesOf are the names of resources measured in bytes, except huge pages, without prefix ("requests.", "limits.") and storage class.
var bytesOf = []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage}

// fewBytes is less than any container or volume can work with.
var fewBytes = resource.MustParse("1Mi")

// manyCPUs is more than any cluster has.
var manyCPUs = resource.MustParse("10M")

// ImplausibleAmounts returns messages about implausible amounts in a quota's hard, sorted by resource name. An amount
// is implausible if its unit does not fit the resource, if it admits nothing, or if another limit prevents usage from
// reaching it. Each message starts with the field's path.
func (e *Evaluators) ImplausibleAmounts(spec *placementv1.QuotaSpec) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
		counted := e.counted(name)
		if len(counted) == 0 {
			continue
		}
		amount := spec.Hard[name]
		why := ""
		switch bare := bareName(name); {
		case amount.IsZero():
			if slices.Contains(counted, pods) && len(requirements(spec)) == 0 && (bare == corev1.ResourceCPU || bare == corev1.ResourceMemory) {
				why = "admits no pod but those that state 0: leave the name out for no limit"
			}
		case slices.Contains(bytesOf, bare) || strings.HasPrefix(string(bare), corev1.ResourceHugePagesPrefix):
			why = implausibleBytes(bare, amount)
		case bare == corev1.ResourceCPU:
			why = cmp.Or(implausibleCPU(amount), implausiblyFewCPUs(spec, name))
		case amount.Format == resource.BinarySI && strings.HasSuffix(amount.String(), "i") && helper.IsExtendedResourceName(bare):
			why = fmt.Sprintf("is the number %s: a plain number is probably meant", decimal(amount))
		case !whole(amount, resource.Scale(0)):
			why = fmt.Sprintf("is the number %s, but objects take whole numbers only: it limits like the next smaller one", decimal(amount))
		}
		if why == "" {
			why = unreachable(spec, name, counted)
		}
		if why != "" {
			out = append(out, fmt.Sprintf("spec.hard[%s]: %s %s", name, amount.String(), why))
		}
	}
	return out
}

// bareName returns the resource name without prefix and storage class, for example memory for requests.memory.
func bareName(name corev1.ResourceName) corev1.ResourceName {
	text := string(name)
	if _, after, found := strings.Cut(text, storageClassInfix); found {
		text = after
	}
	for _, prefix := range []string{corev1.DefaultResourceRequestsPrefix, "limits."} {
		if bare, found := strings.CutPrefix(text, prefix); found {
			return corev1.ResourceName(bare)
		}
	}
	return corev1.ResourceName(text)
}

// implausibleBytes returns why an amount of bytes is implausible for a resource: it is no whole number or, except for huge pages, is less
// than fewBytes. It returns "" for other amounts.
func implausibleBytes(bare corev1.ResourceName, amount resource.Quantity) string {
	switch {
	case !whole(amount, resource.Scale(0)):
		return fmt.Sprintf("is %s bytes: Mi is probably meant, since m is a thousandth", decimal(amount))
	case slices.Contains(bytesOf, bare) && amount.Cmp(fewBytes) < 0:
		return fmt.Sprintf("is %s bytes, too few for any object: Mi or Gi is probably meant", decimal(amount))
	default:
		return ""
	}
}

// implausibleCPU returns why an amount of CPU is implausible: it is no whole number of thousandths of a CPU, is at least manyCPUs, or has a
// binary suffix such as Gi. It returns "" for other amounts.
func implausibleCPU(amount resource.Quantity) string {
	switch {
	case !whole(amount, resource.Milli):
		return fmt.Sprintf("is %s CPUs, and objects take CPU in steps of 1m", decimal(amount))
	case amount.Cmp(manyCPUs) >= 0 || amount.Format == resource.BinarySI && amount.CmpInt64(1024) >= 0 &&
		strings.HasSuffix(amount.String(), "i"):
		return fmt.Sprintf("is %s CPUs: a number of CPUs, or of thousandths as in 500m, is probably meant", decimal(amount))
	default:
		return ""
	}
}

// mostPerCPU is more memory than any machine has for each CPU, and leastPerPod is less CPU than any pod works with.
var mostPerCPU, leastPerPod = resource.MustParse("512Gi"), resource.MustParse("1m")

// implausiblyFewCPUs returns why the amount of CPU of a name in hard is implausible, if it is written in thousandths, such as 500m: hard
// has more than 512Gi of memory for each CPU, or more pods than thousandths of a CPU. It returns "" for others.
func implausiblyFewCPUs(spec *placementv1.QuotaSpec, name corev1.ResourceName) string {
	amount := spec.Hard[name]
	number, isMilli := strings.CutSuffix(amount.String(), "m")
	if !isMilli {
		return ""
	}
	prefix, _ := strings.CutSuffix(string(name), string(corev1.ResourceCPU))
	for _, other := range []corev1.ResourceName{
		corev1.ResourceName(prefix + string(corev1.ResourceMemory)), corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourcePods,
	} {
		beside, bounded := spec.Hard[other]
		isFew := beside.AsApproximateFloat64() > amount.AsApproximateFloat64()*mostPerCPU.AsApproximateFloat64()
		if other == corev1.ResourcePods {
			isFew = amount.AsApproximateFloat64() < beside.AsApproximateFloat64()*leastPerPod.AsApproximateFloat64()
		}
		if bounded && isFew {
			return fmt.Sprintf("is %s CPUs, too few beside spec.hard[%s], which is %s: %s is probably meant, since m is a thousandth",
				decimal(amount), other,
				beside.String(), number)
		}
	}
	return ""
}

// unreachable returns why usage cannot become as large as the amount of a name that counts objects of the types; "" if it can. What counts
// under another name, too, is also bounded by the amount of that name. A container cannot request more than its limit, and if the sum of
// limits is limited, every container must have a limit.
func unreachable(spec *placementv1.QuotaSpec, name corev1.ResourceName, counted []schema.GroupResource) string {
	amount, bare := spec.Hard[name], bareName(name)
	bounds := func(other corev1.ResourceName) bool {
		bound, bounded := spec.Hard[other]
		return bounded && amount.Cmp(bound) > 0
	}
	if i := slices.IndexFunc(countedToo(name, counted), bounds); i >= 0 {
		other := countedToo(name, counted)[i]
		bound := spec.Hard[other]
		return fmt.Sprintf("is never reached: what counts under %s counts under %s, too, and spec.hard[%s] is %s", name,
			other, other, bound.String())
	}
	limits := corev1.ResourceName("limits." + string(bare))
	limit := spec.Hard[limits]
	if name == limits || !bounds(limits) || limit.IsZero() || bare != corev1.ResourceCPU && bare != corev1.ResourceMemory {
		return ""
	}
	return fmt.Sprintf("is never reached: no container requests more than its limit, and spec.hard[%s] is %s", limits, limit.String())
}

// countedToo returns other resource names under which everything that counts under a name counts, too, with the same amount. counted are
// the types of objects that the name counts.
func countedToo(name corev1.ResourceName, counted []schema.GroupResource) []corev1.ResourceName {
	var out []corev1.ResourceName
	of := func(t schema.GroupResource) []corev1.ResourceName {
		return []corev1.ResourceName{corev1.ResourceName(t.Resource), corev1.ResourceName(countPrefix + t.String())}
	}
	class, ofClass, hasClass := strings.Cut(string(name), storageClassInfix)
	switch t := counted[0]; {
	case hasClass && class != "" && ofClass == string(corev1.ResourcePersistentVolumeClaims):
		out = of(claims)
	case hasClass && class != "":
		out = []corev1.ResourceName{corev1.ResourceName(ofClass)}
	case name == corev1.ResourceServicesLoadBalancers:
		out = of(services)
	case t == deviceClaims || name == countPrefix+corev1.ResourcePods:
		// Pods that have finished count under count/pods alone. The devices of claims are not all of what counts under their other name.
	default:
		if other := equivalentName(t, name); other != "" {
			out = append(out, other)
		}
	}
	return out
}

// whole reports whether an amount is a whole number of units of a scale, such as resource.Milli.
func whole(amount resource.Quantity, scale resource.Scale) bool {
	rounded := amount.DeepCopy()
	return rounded.RoundUp(scale)
}

// decimal returns an amount as a decimal number without suffix, for example 0.512.
func decimal(amount resource.Quantity) string {
	copied := amount.DeepCopy()
	text := copied.AsDec().String()
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Unstated returns an error that names the requests and limits that a pod must state because a quota counts them, but does not; nil if
// there are none, or if the quota has scopes.
func (e *Evaluators) Unstated(spec *placementv1.QuotaSpec, pod *corev1.Pod) error {
	if len(requirements(spec)) > 0 {
		return nil
	}
	evaluator := e.special[pods]
	return evaluator.Constraints(evaluator.MatchingResources(slices.Collect(maps.Keys(spec.Hard))), pod)
}

// Extended returns the names in a quota's hard that count extended resources, such as requests.nvidia.com/gpu, sorted. It leaves out those
// of resources that a DeviceClass provides.
func (e *Evaluators) Extended(spec *placementv1.QuotaSpec) (out []corev1.ResourceName) {
	for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
		if bareName(name) != name && slices.Contains(e.counted(name), pods) && e.needsNodes(name) {
			out = append(out, name)
		}
	}
	return out
}

// ExtendedParts returns, for each entry of the matchContains of a LimitedResource for pods, the entry itself, without a prefix such as
// requests., if it looks like an extended resource's name (with a slash), of which a part may be missing. It returns "" for other entries,
// for a resource that a DeviceClass provides, and for all entries of a LimitedResource for other objects.
func (e *Evaluators) ExtendedParts(spec *placementv1.LimitedResourceSpec) []string {
	out := make([]string, len(spec.MatchContains))
	if (schema.GroupResource{Group: spec.APIGroup, Resource: spec.Resource}) != pods {
		return out
	}
	for i, part := range spec.MatchContains {
		if name := corev1.ResourceName(part); e.needsNodes(name) {
			out[i] = string(bareName(name))
		}
	}
	return out
}

// commonExtended are extended resources that the device plugins of vendors add to nodes. They are suggested in place of misspelled names.
var commonExtended = []string{
	"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi", "google.com/tpu", "aws.amazon.com/neuron",
}

// MeantExtended returns the common name of an extended resource that is probably meant by one that differs from it in case, or by the
// plural ending; "" for none.
func MeantExtended(name string) string {
	folded := strings.ToLower(name)
	for _, common := range commonExtended {
		if name != common && (folded == common || folded == common+"s") {
			return common
		}
	}
	return ""
}

// needsNodes reports whether a name is that of an extended resource, with or without a prefix such as requests., that no DeviceClass
// provides, so that only nodes have it.
func (e *Evaluators) needsNodes(name corev1.ResourceName) bool {
	bare := bareName(name)
	return helper.IsExtendedResourceName(bare) && meantDevices(name) == "" &&
		(e.devices.Classes == nil || e.devices.Classes.GetDeviceClass(bare) == nil)
}
