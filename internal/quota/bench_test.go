package quota_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
)

// decisions decides creates of pods against the quotas of one namespace, from the API server's JSON to the charge.
type decisions struct {
	evaluators *quota.Evaluators
	compiler   *quota.Compiler
	quotas     []*placementv1.ScopedQuota
	pod        []byte
}

// newDecisions returns decisions against n quotas, of which all but every fifth match and none is ever exceeded.
func newDecisions(t testing.TB, n int) *decisions {
	t.Helper()
	d := &decisions{evaluators: quota.NewEvaluators(clock.RealClock{}), compiler: newCompiler()}
	enough := list("pods", "100", "requests.cpu", "64", "requests.memory", "256Gi", "limits.memory", "512Gi")
	for i := range n {
		q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-a", Name: fmt.Sprintf("quota-%d", i), UID: types.UID(fmt.Sprintf("quota-%d", i)), Generation: 1, ResourceVersion: "7",
		}}
		// A resource of its own makes each module another one.
		q.Spec.Hard = enough.DeepCopy()
		q.Spec.Hard[corev1.ResourceName(fmt.Sprintf("requests.example.com/device-%d", i))] = list("x", "10")["x"]
		classes := []string{"gold", "silver"}
		if i%5 == 0 {
			classes = []string{"bronze"}
		}
		q.Spec.ScopeSelector = &placementv1.ScopeSelector{MatchExpressions: []placementv1.ScopeRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: classes},
			{ScopeName: corev1.ResourceQuotaScopeNotTerminating, Operator: corev1.ScopeSelectorOpExists},
		}}
		q.Status.ObservedGeneration = 1
		q.Status.Hard = q.Spec.Hard
		q.Status.Used = list("pods", "17", "requests.cpu", "4300m", "requests.memory", "9Gi", "limits.memory", "12Gi")
		q.Status.Used[corev1.ResourceName(fmt.Sprintf("requests.example.com/device-%d", i))] = list("x", "3")["x"]
		d.quotas = append(d.quotas, q)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p", UID: "p", Labels: map[string]string{"app": "web"}}}
	pod.Spec.PriorityClassName = "gold"
	for _, name := range []string{"web", "proxy"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: "registry.example/" + name + ":1",
			Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
			Resources: corev1.ResourceRequirements{
				Requests: list("cpu", "250m", "memory", "512Mi"), Limits: list("memory", "1Gi"),
			},
		})
	}
	var err error
	if d.pod, err = json.Marshal(pod); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *decisions) decide(ctx context.Context, t testing.TB) {
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
	if want := len(d.quotas) - (len(d.quotas)+4)/5; charged != want {
		t.Fatalf("charged %d quotas, want %d", charged, want)
	}
}

// cpu is the processor time that this process has taken.
func cpu(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// A decision against ten quotas takes less than a millisecond of processor time. That of the whole process is measured,
// the garbage collector's included, since the time on a wall depends on who else is there. So does, though less, the time
// of a processor whose caches others use too: hence the best of several batches, which only this code can make worse.
func TestDecisionTakesLittle(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes most of the time")
	}
	const batches, n, limit = 10, 100, time.Millisecond
	d := newDecisions(t, 10)
	// Modules are compiled once.
	d.decide(t.Context(), t)
	var all []time.Duration
	for range batches {
		before := cpu(t)
		for range n {
			d.decide(t.Context(), t)
		}
		all = append(all, (cpu(t)-before)/n)
	}
	t.Logf("processor time for each decision: %v", all)
	if took := slices.Min(all); took >= limit {
		t.Errorf("a decision takes %v, want less than %v", took, limit)
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprintf("quotas=%d", n), func(b *testing.B) {
			d := newDecisions(b, n)
			d.decide(b.Context(), b)
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				d.decide(b.Context(), b)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
