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

package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
)

// quotaDecisions decides creates of pods against the quotas of one namespace, from the API server's JSON to the charge.
type quotaDecisions struct {
	evaluators *quota.Evaluators
	compiler   *quota.Compiler
	quotas     []*placementv1.ScopedQuota
	pod        []byte
}

// newQuotaDecisions returns decisions against n quotas, of which all but every fifth match and none is ever exceeded.
func newQuotaDecisions(t testing.TB, n int) *quotaDecisions {
	t.Helper()
	d := &quotaDecisions{evaluators: quota.NewEvaluators(clock.RealClock{}, quota.Devices{}), compiler: quota.NewCompiler(embedded.New(embedded.NewData(), embedded.Options{}).PrepareGenerated)}
	enough := quotatest.Amounts("pods", "100", "requests.cpu", "64", "requests.memory", "256Gi", "limits.memory", "512Gi")
	for i := range n {
		q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-a", Name: fmt.Sprintf("quota-%d", i), UID: types.UID(fmt.Sprintf("quota-%d", i)), Generation: 1, ResourceVersion: "7",
		}}
		// A resource of its own makes each module another one.
		q.Spec.Hard = enough.DeepCopy()
		q.Spec.Hard[corev1.ResourceName(fmt.Sprintf("requests.example.com/device-%d", i))] = quotatest.Amounts("x", "10")["x"]
		classes := []string{"gold", "silver"}
		if i%5 == 4 {
			classes = []string{"bronze"}
		}
		q.Spec.ScopeSelector = &placementv1.ScopeSelector{MatchExpressions: []placementv1.ScopeRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: classes},
			{ScopeName: corev1.ResourceQuotaScopeNotTerminating, Operator: corev1.ScopeSelectorOpExists},
		}}
		q.Status.ObservedGeneration = 1
		q.Status.Hard = q.Spec.Hard
		q.Status.Used = quotatest.Amounts("pods", "17", "requests.cpu", "4300m", "requests.memory", "9Gi", "limits.memory", "12Gi")
		q.Status.Used[corev1.ResourceName(fmt.Sprintf("requests.example.com/device-%d", i))] = quotatest.Amounts("x", "3")["x"]
		d.quotas = append(d.quotas, q)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p", UID: "p", Labels: map[string]string{"app": "web"}}}
	pod.Spec.PriorityClassName = "gold"
	for _, name := range []string{"web", "proxy"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: "registry.example/" + name + ":1",
			Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
			Resources: corev1.ResourceRequirements{
				Requests: quotatest.Amounts("cpu", "250m", "memory", "512Mi"), Limits: quotatest.Amounts("memory", "1Gi"),
			},
		})
	}
	var err error
	if d.pod, err = json.Marshal(pod); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *quotaDecisions) decide(ctx context.Context, t testing.TB) {
	t.Helper()
	request, err := d.evaluators.NewRequest("charge", &admissionv1.AdmissionRequest{
		UID: "r", Operation: admissionv1.Create, Namespace: "team-a", Name: "p",
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: runtime.RawExtension{Raw: d.pod},
	})
	if err != nil {
		t.Fatal(err)
	}
	accounts := make([]*quota.Account, len(d.quotas))
	for i, q := range d.quotas {
		rules, err := d.compiler.Quota(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		accounts[i] = quota.NewAccount(q, rules)
	}
	verdict, err := request.Admit(ctx, accounts, nil, time.Time{})
	if err != nil || !verdict.Allowed() {
		t.Fatal(verdict, err)
	}
	charged := 0
	for _, a := range accounts {
		if a.Changed() {
			charged++
		}
	}
	if want := len(d.quotas) - len(d.quotas)/5; charged != want {
		t.Fatalf("charged %d quotas, want %d", charged, want)
	}
}

// BenchmarkQuotaDecision is the create of a pod against quotas whose modules are compiled, from the API server's JSON to
// the charge; part=Decode is what reading that JSON takes alone, for comparison.
func BenchmarkQuotaDecision(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprintf("quotas=%d", n), func(b *testing.B) {
			d := newQuotaDecisions(b, n)
			d.decide(b.Context(), b)
			measure(b, func(int) { d.decide(b.Context(), b) })
		})
	}
	b.Run("part=Decode", func(b *testing.B) {
		d := newQuotaDecisions(b, 1)
		measure(b, func(int) {
			if err := json.Unmarshal(d.pod, &corev1.Pod{}); err != nil {
				b.Fatal(err)
			}
		})
	})
}
