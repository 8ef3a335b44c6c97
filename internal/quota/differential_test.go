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
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	limitedapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	testingclock "k8s.io/utils/clock/testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/test/budget"
)

// now is the time of all tests.
var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// TestAdmitAgainstUpstream compares decisions and charges with those of the API server's own plug-in ("upstream"), for
// random quotas, limits, and requests. There are these intended differences:
//
//   - Upstream denies a request if a quota's usage is not known yet. For Berth, the request is pending, or allowed if
//     it changes nothing that the quota could deny. Berth's message lists what is unknown; upstream's lists everything
//     that the quota tracks.
//   - Upstream stops at the first reason; Berth lists all reasons. So upstream's message must be one of Berth's. If
//     Berth has one message, both must be equal. Berth checks for negative usage first.
//   - Upstream applies the scopes of a limit to objects of every type; Berth only to those of the limit's own type.
//     Here both get only the limits for the object's type.
//   - Upstream checks limits only if usage grows. Berth also denies an update by which an object comes to match a limit's
//     scope. Upstream must deny the create of such an object.
func TestAdmitAgainstUpstream(t *testing.T) {
	const casesPerRound = 1500
	rounds := budget.Rounds(2)
	seen := map[string]int{}
	for seed := range int64(rounds) {
		w := newWorld(t, seed, 25, 10)
		for range casesPerRound {
			if seen[w.one(t)]++; t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
	t.Log(seen)
	// Every verdict must occur, otherwise the test does not check it.
	for _, verdict := range []string{
		"ignored", "allowed", "charged", "dry", "exceeded quota", "failed quota", "status unknown", "unchanged", "quota usage is negative",
		"insufficient quota to consume", "insufficient quota to match these scopes", "entered",
	} {
		if seen[verdict] < rounds*5/2 {
			t.Errorf("only %d cases end with %q", seen[verdict], verdict)
		}
	}
}

// FuzzAdmit runs the checks of TestAdmitAgainstUpstream with other seeds.
func FuzzAdmit(f *testing.F) {
	f.Add(int64(0))
	f.Fuzz(func(t *testing.T, seed int64) {
		w := newWorld(t, seed, 5, 3)
		for range 100 {
			w.one(t)
		}
	})
}

// world holds the compiled quotas and limits of which random cases use some.
type world struct {
	rand       *rand.Rand
	oracle     oracle
	evaluators *quota.Evaluators
	quotas     []*placementv1.ScopedQuota
	rules      []*quota.Rules
	limits     []quota.Limit
	n          int
}

func newWorld(t *testing.T, seed int64, quotas, limits int) *world {
	t.Helper()
	clock := testingclock.NewFakeClock(now)
	w := &world{rand: rand.New(rand.NewPCG(uint64(seed), 0)), oracle: newOracle(clock, upstreamDevices()), evaluators: quota.NewEvaluators(clock, devices())}
	compiler := newCompiler()
	for i := range quotas {
		q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("q%d", i), UID: types.UID(fmt.Sprintf("q%d", i)), Generation: 7}}
		q.Spec.QuotaSpec = w.spec()
		rules, err := compiler.Quota(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		w.quotas, w.rules = append(w.quotas, q), append(w.rules, rules)
	}
	for i := range limits {
		l := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("l%d", i), UID: types.UID(fmt.Sprintf("l%d", i))}, Spec: w.limit()}
		rules, err := compiler.Limit(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		w.limits = append(w.limits, quota.Limit{Object: l, Rules: rules})
	}
	return w
}

// one compares both implementations on one random request, and returns the kind of result.
func (w *world) one(t *testing.T) string {
	t.Helper()
	review := w.request(t)
	accounts, quotas := w.accounts(schema.GroupResource{Group: review.Resource.Group, Resource: review.Resource.Resource})
	var limits []quota.Limit
	var upstreamLimits []limitedapi.LimitedResource
	most := w.rand.IntN(4)
	for _, i := range w.rand.Perm(len(w.limits)) {
		if l := w.limits[i]; len(limits) < most && l.Object.Spec.APIGroup == review.Resource.Group && l.Object.Spec.Resource == review.Resource.Resource {
			limits = append(limits, l)
			upstreamLimits = append(upstreamLimits, upstreamLimit(&l.Object.Spec))
		}
	}
	result, denied := w.oracle.check(t, quotas, upstreamLimits, review)

	complain := func(format string, args ...any) {
		t.Helper()
		text, _ := json.MarshalIndent(map[string]any{"request": review, "quotas": quotas, "limits": upstreamLimits}, "", " ")
		t.Errorf("%s\nupstream: %v\n%s", fmt.Sprintf(format, args...), denied, text)
	}
	request, err := w.evaluators.NewRequest(string(review.UID), review)
	if err != nil {
		complain("not read: %v", err)
		return ""
	}
	if request == nil {
		if denied != nil || !slices.EqualFunc(quotas, result, sameUsed) {
			complain("ignored")
		}
		return "ignored"
	}
	verdict, err := request.Admit(t.Context(), accounts, limits, now.Add(time.Minute))
	if err != nil {
		complain("not decided: %v", err)
		return ""
	}
	changed := slices.ContainsFunc(accounts, (*quota.Account).Changed)
	if changed && (!verdict.Allowed() || review.DryRun != nil && *review.DryRun) {
		complain("charged, though it is refused or a dry run")
	}
	unknown := denied != nil && strings.Contains(denied.Error(), "status unknown for quota")
	if unknown {
		// Check again with upstream as if the unknown usage were zero. If Berth allows the request, it changes no quota
		// whose usage is partly unknown. If Berth denies it for good, it is denied whatever the usage is.
		for i := range quotas {
			quotas[i].Status.Used = upstream.Add(quotas[i].Status.Used, zeros(quotas[i].Status.Hard))
		}
		result, denied = w.oracle.check(t, quotas, upstreamLimits, review)
	}
	entered := false
	if denied == nil {
		denied = w.oracle.entered(t, quotas, upstreamLimits, review)
		entered = denied != nil
	}
	switch {
	case len(verdict.Denied) > 0 && denied == nil:
		complain("denied: %+v", verdict.Denied)
	case len(verdict.Denied) == 0 && len(verdict.Pending) > 0 && !unknown:
		complain("pending: %+v", verdict.Pending)
	case !verdict.Allowed() && unknown:
		return "status unknown"
	case !verdict.Allowed():
		if kind := compareRefusal(complain, verdict, denied.Error()); !entered {
			return kind
		}
		return "entered"
	case denied != nil:
		complain("allowed")
	}
	if t.Failed() {
		return ""
	}
	if *review.DryRun {
		return "dry"
	}
	for i, account := range accounts {
		if sameUsed(quotas[i], result[i]) && !account.Changed() {
			continue
		}
		if diff := cmp.Diff(result[i].Status.Used, corev1.ResourceList(account.Quota().QuotaStatus().Used), sameAmounts); diff != "" {
			complain("used of %s -upstream +got:\n%s", account.Quota().GetName(), diff)
		}
	}
	switch {
	case unknown:
		return "unchanged"
	case changed:
		return "charged"
	}
	return "allowed"
}

func zeros(of corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name := range of {
		out[name] = resource.Quantity{}
	}
	return out
}

func sameUsed(a, b corev1.ResourceQuota) bool { return upstream.Equals(a.Status.Used, b.Status.Used) }

func compareRefusal(complain func(string, ...any), verdict *quota.Verdict, want string) string {
	_, message, found := strings.Cut(want, " is forbidden: ")
	if !found {
		message = want
	}
	kind, _, _ := strings.Cut(message, ":")
	kind, _, _ = strings.Cut(kind, " for resource(s)")
	if len(verdict.Denied) == 1 && len(verdict.Pending) == 0 && strings.HasPrefix(message, "exceeded") && verdict.Denied[0].By == nil {
		complain("denied by nobody")
	}
	negative := len(verdict.Denied) == 1 && strings.HasPrefix(verdict.Denied[0].Message, "quota usage is negative") && kind == "failed quota"
	if !negative && !slices.ContainsFunc(verdict.Denied, func(d quota.Denial) bool { return d.Message == message }) {
		complain("other messages: %+v", verdict.Denied)
	}
	return kind
}

// accounts returns some of the quotas with random usage. Most of them count the type.
func (w *world) accounts(of schema.GroupResource) ([]*quota.Account, []corev1.ResourceQuota) {
	var accounts []*quota.Account
	quotas := []corev1.ResourceQuota{}
	most := w.rand.IntN(4)
	for _, i := range w.rand.Perm(len(w.quotas)) {
		if len(accounts) == most {
			break
		}
		if len(w.oracle.of(of).MatchingResources(upstream.ResourceNames(w.quotas[i].Spec.Hard))) == 0 && w.chance(90) {
			continue
		}
		q := w.quotas[i].DeepCopy()
		q.Status.ObservedGeneration = q.Generation
		q.Status.Used = corev1.ResourceList{}
		for name, hard := range q.Spec.Hard {
			if w.chance(2) {
				continue
			}
			used := w.amount(name)
			if w.chance(80) && used.Cmp(hard) > 0 {
				used = resource.MustParse("0")
			}
			q.Status.Used[name] = used
		}
		equivalent := upstreamQuota(q)
		if w.chance(2) {
			// Usage that was counted for another spec is unknown.
			q.Status.ObservedGeneration--
			equivalent.Status.Used = corev1.ResourceList{}
		}
		accounts, quotas = append(accounts, quota.NewAccount(q, w.rules[i])), append(quotas, equivalent)
	}
	return accounts, quotas
}

func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

func pick[T any](w *world, of ...T) T { return of[w.rand.IntN(len(of))] }

// names are names in hard, grouped by the evaluator that counts them.
var names = [][]corev1.ResourceName{
	{
		"pods", "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
		"limits.ephemeral-storage", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.nvidia.com/gpu", "count/pods",
	},
	{"services", "services.nodeports", "services.loadbalancers", "count/services"},
	{
		"persistentvolumeclaims", "requests.storage", "count/persistentvolumeclaims", "gold.storageclass.storage.k8s.io/requests.storage",
		"gold.storageclass.storage.k8s.io/persistentvolumeclaims",
	},
	{
		"requests.nvidia.com/gpu", "gpu.deviceclass.resource.k8s.io/devices", "requests.deviceclass.resource.kubernetes.io/gpu", "other.deviceclass.resource.k8s.io/devices",
		"requests.deviceclass.resource.kubernetes.io/other", "requests.deviceclass.resource.kubernetes.io/absent", "count/resourceclaims.resource.k8s.io",
	},
	{"configmaps", "count/configmaps", "count/secrets", "count/widgets.example.com", "nvidia.com/gpu", "count/events"},
}

// amount returns a random amount of a resource, which is often zero.
func (w *world) amount(name corev1.ResourceName) resource.Quantity {
	switch {
	case w.chance(10):
		return resource.MustParse("0")
	case strings.Contains(string(name), "cpu"):
		return resource.MustParse(pick(w, "1", "100m", "250m", "1500m", "2", "4", "10", "0.5", "1e1"))
	case strings.Contains(string(name), "memory") || strings.Contains(string(name), "storage") && !strings.Contains(string(name), "claims") || strings.Contains(string(name), "hugepages"):
		return resource.MustParse(pick(w, "1Gi", "512Mi", "2Gi", "10Gi", "1G", "1073741824", "4096Mi", "1.5Gi", "100"))
	default:
		return resource.MustParse(pick(w, "1", "2", "3", "4", "10", "1k"))
	}
}

var classScopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass}

var scopes = append([]corev1.ResourceQuotaScope{
	corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
	corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
}, classScopes...)

// requirement returns a valid random requirement: only scopes with classes have operators other than Exists.
func (w *world) requirement() placementv1.ScopeRequirement {
	r := placementv1.ScopeRequirement{ScopeName: pick(w, scopes...), Operator: corev1.ScopeSelectorOpExists}
	if w.chance(50) {
		r.ScopeName = pick(w, classScopes...)
		r.Operator = pick(w, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist)
	}
	if r.Operator == corev1.ScopeSelectorOpIn || r.Operator == corev1.ScopeSelectorOpNotIn {
		r.Values = pick(w, []string{"low"}, []string{"high"}, []string{"low", "high"}, []string{"high", "absent", "high"}, []string{""}, []string{"", "low"})
	}
	return r
}

func (w *world) spec() placementv1.QuotaSpec {
	spec := placementv1.QuotaSpec{Hard: corev1.ResourceList{}, Mode: pick(w, "", placementv1.ModeEnforce)}
	for range 1 + w.rand.IntN(2) {
		group := pick(w, names...)
		for range w.rand.IntN(5) {
			name := pick(w, group...)
			spec.Hard[name] = w.amount(name)
		}
	}
	if w.chance(30) {
		for range 1 + w.rand.IntN(2) {
			spec.Scopes = append(spec.Scopes, pick(w, scopes...))
		}
	}
	if w.chance(30) {
		spec.ScopeSelector = &placementv1.ScopeSelector{}
		for range w.rand.IntN(3) {
			spec.ScopeSelector.MatchExpressions = append(spec.ScopeSelector.MatchExpressions, w.requirement())
		}
	}
	return spec
}

func (w *world) limit() placementv1.LimitedResourceSpec {
	spec := placementv1.LimitedResourceSpec{Resource: pick(w, "pods", "services", "persistentvolumeclaims", "configmaps", "widgets", "resourceclaims")}
	switch spec.Resource {
	case "widgets":
		spec.APIGroup = "example.com"
	case "resourceclaims":
		spec.APIGroup = "resource.k8s.io"
	}
	for range w.rand.IntN(3) {
		spec.MatchContains = append(spec.MatchContains, pick(w, "pods", "cpu", "requests.", "limits.memory", "gpu", "services.", "services", "gold", "storage", "count/", "configmaps", "deviceclass"))
	}
	for range w.rand.IntN(3) {
		spec.MatchScopes = append(spec.MatchScopes, w.requirement())
	}
	return spec
}

// request returns a random request. Quotas could count most of them.
func (w *world) request(t *testing.T) *admissionv1.AdmissionRequest {
	t.Helper()
	w.n++
	r := &admissionv1.AdmissionRequest{
		UID: types.UID(fmt.Sprint(w.n)), Namespace: "ns", Name: "object", Operation: admissionv1.Create, DryRun: new(w.chance(10)),
		Resource: metav1.GroupVersionResource{Version: "v1"},
	}
	if w.chance(40) {
		r.Operation = admissionv1.Update
	}
	var generate func() any
	switch w.rand.IntN(10) {
	case 8, 9:
		generate = func() any { return w.deviceClaim() }
		r.Resource.Group, r.Resource.Resource = "resource.k8s.io", "resourceclaims"
		if r.Operation == admissionv1.Update {
			r.SubResource = pick(w, "", "", "status")
		}
	case 0, 1, 2:
		generate = func() any { return w.pod() }
		r.Resource.Resource, r.SubResource = "pods", pick(w, "", "", "", "", "", "", "", "status")
		if r.Operation == admissionv1.Update {
			r.SubResource = pick(w, "", "", "resize", "resize", "status", "binding")
		}
	case 3, 4:
		generate = func() any { return w.service() }
		r.Resource.Resource = "services"
	case 5, 6:
		generate = func() any { return w.claim() }
		r.Resource.Resource = "persistentvolumeclaims"
		if r.Operation == admissionv1.Update {
			r.SubResource = pick(w, "", "", "status")
		}
	default:
		generate = func() any { return map[string]any{"metadata": map[string]any{}} }
		r.Resource.Group, r.Resource.Resource = "example.com", "widgets"
		if w.chance(50) {
			r.Resource.Group, r.Resource.Resource = "", pick(w, "configmaps", "secrets")
		}
	}
	object := generate()
	r.Object = w.raw(t, object, "2")
	if r.Operation == admissionv1.Update {
		old := generate()
		switch {
		case w.chance(20):
			old = object
		case w.chance(40):
			old = w.rescoped(object)
		}
		// For an update that creates its object, the old object has no version.
		r.OldObject = w.raw(t, old, pick(w, "1", "1", "1", ""))
	}
	return r
}

// rescoped returns an object that takes as much and may match other scopes.
func (w *world) rescoped(object any) any {
	switch o := object.(type) {
	case *corev1.Pod:
		o = o.DeepCopy()
		o.Spec.ActiveDeadlineSeconds = pick(w, nil, new(int64(30)))
		return o
	case *corev1.PersistentVolumeClaim:
		o = o.DeepCopy()
		o.Spec.VolumeAttributesClassName = pick(w, nil, new("low"), new("high"))
		return o
	}
	return object
}

func (w *world) raw(t *testing.T, object any, version string) runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	metadata, _ := content["metadata"].(map[string]any)
	maps.Copy(metadata, map[string]any{"name": "object", "namespace": "ns", "uid": fmt.Sprintf("object-%d", w.n), "resourceVersion": version})
	if text, err = json.Marshal(content); err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

func (w *world) resources() corev1.ResourceRequirements {
	some := func(odds int) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"} {
			if w.chance(odds) {
				out[name] = w.amount(name)
				odds /= 2
			}
		}
		return out
	}
	if w.chance(20) {
		return corev1.ResourceRequirements{}
	}
	out := corev1.ResourceRequirements{Requests: some(90), Limits: some(60)}
	if w.chance(2) {
		out.Requests["cpu"] = resource.MustParse("-1")
	}
	return out
}

func (w *world) pod() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Spec.PriorityClassName = pick(w, "", "low", "high", "other")
	if w.chance(30) {
		pod.Spec.ActiveDeadlineSeconds = new(pick(w, int64(0), 30))
	}
	for i := range 1 + w.rand.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Resources: w.resources()})
	}
	if w.chance(20) {
		init := corev1.Container{Name: "init", Resources: w.resources()}
		if w.chance(50) {
			init.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if w.chance(10) {
		pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("10m")}
	}
	if w.chance(10) {
		pod.Spec.Resources = new(w.resources())
	}
	if w.chance(20) {
		term := corev1.PodAffinityTerm{TopologyKey: "zone"}
		if w.chance(70) {
			term.Namespaces = []string{"other"}
		} else if w.chance(50) {
			term.NamespaceSelector = &metav1.LabelSelector{}
		}
		weighted := []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
		pod.Spec.Affinity = pick(w,
			&corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}},
			&corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}},
			&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}},
			&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}})
	}
	switch {
	case w.chance(5):
		pod.Status.Phase = pick(w, corev1.PodSucceeded, corev1.PodFailed)
	case w.chance(10):
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c0", AllocatedResources: corev1.ResourceList{"cpu": w.amount("cpu")}, Resources: new(w.resources())}}
	}
	return pod
}

func (w *world) service() *corev1.Service {
	s := &corev1.Service{}
	s.Spec.Type = pick(w, "", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)
	for range w.rand.IntN(4) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 80, NodePort: pick(w, int32(0), 30000)})
	}
	if w.chance(30) {
		s.Spec.AllocateLoadBalancerNodePorts = new(w.chance(30))
	}
	return s
}

func (w *world) claim() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{}
	class := func() *string { return pick(w, nil, new(""), new("low"), new("high"), new("other")) }
	c.Spec.StorageClassName = pick(w, nil, new(""), new("gold"), new("other"))
	c.Spec.VolumeAttributesClassName = class()
	if w.chance(90) {
		c.Spec.Resources.Requests = corev1.ResourceList{"storage": w.amount("requests.storage")}
	}
	if w.chance(3) {
		c.Spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse("-1Gi")}
	}
	if w.chance(3) {
		c.Spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse("1500m")}
	}
	if w.chance(30) {
		c.Status.CurrentVolumeAttributesClassName = class()
	}
	if w.chance(30) {
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: pick(w, "", "low", "high")}
	}
	if w.chance(20) {
		c.Status.AllocatedResources = corev1.ResourceList{"storage": w.amount("requests.storage")}
	}
	return c
}

// deviceClaim returns a random ResourceClaim. Some look as if the scheduler made them for the extended resources of a
// pod.
func (w *world) deviceClaim() *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{}
	class := func() string { return pick(w, "gpu", "gpu", "other", "absent") }
	mode := func() resourcev1.DeviceAllocationMode {
		return pick(w, resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeAll, "Unknown")
	}
	for range w.rand.IntN(3) {
		var r resourcev1.DeviceRequest
		if w.chance(60) {
			r.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: class(), AllocationMode: mode(), Count: int64(w.rand.IntN(4))}
		}
		for range w.rand.IntN(3) {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{DeviceClassName: class(), AllocationMode: mode(), Count: int64(w.rand.IntN(4))})
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r)
	}
	if w.chance(50) {
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: pick(w, "true", "true", "false")}
		c.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: pick(w, "v1", "v1", "v1", "v2"), Kind: pick(w, "Pod", "Pod", "Pod", "Job"), Name: pick(w, "owner", "owner", "assigned", "absent"),
			UID: pick(w, types.UID("pod"), "pod", "pod", "other"), Controller: new(w.chance(80)),
		}}
	}
	return c
}
