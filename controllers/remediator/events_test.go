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

package remediator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// emitted keeps Events, as lines of text.
type emitted struct {
	mu    sync.Mutex
	lines []string
}

func (e *emitted) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reference := about.(*corev1.ObjectReference)
	e.lines = append(e.lines, fmt.Sprintf("%s %s/%s %s: %s", reference.Kind, reference.Namespace, reference.Name, reason, fmt.Sprintf(note, args...)))
}

// take returns the lines since the last call.
func (e *emitted) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.lines
	e.lines = nil
	return out
}

// annotator is a policy that sets an annotation.
type annotator struct{ oracle }

func (*annotator) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	return placement.Decision{Annotations: map[string]string{"example.com/a": "x"}}, nil
}

// TestEventsOfASweepAreBounded checks that the first Events of a sweep are on the objects, that one on their namespace has the number of
// the others with the cause, and that the log of decisions has all moves.
func TestEventsOfASweepAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, first = 40, 10
		l, recorder, log := newLeader(t), &emitted{}, &bytes.Buffer{}
		l.Events, l.Decisions = events.New(recorder), decisionlog.New(slog.NewJSONHandler(log, nil))
		l.Patcher.Client = patcher{patch: func(name string) (*unstructured.Unstructured, error) {
			o, _ := l.objects.Get(remediation.Key{Resource: deployments, Namespace: "shop", Name: name})
			o = patched(o, "x")
			l.objects.Put(deployments, o.DeepCopy())
			return o, nil
		}}
		e := &annotator{}
		e.revision.Store(1)
		l.put("p", "", placementv1.RemediationAutomatic, e)
		l.start()
		l.fill(deployments, many(objects, "a"))
		pass(t, 30*time.Second)
		lines := recorder.take()
		for _, line := range lines {
			if !strings.HasPrefix(line, "Deployment shop/a-") || !strings.Contains(line, `PlacementRemediated: PlacementPolicy "p": set annotation example.com/a`) {
				t.Errorf("event %q", line)
			}
		}
		if len(lines) != first {
			t.Errorf("%d events on objects", len(lines))
		}
		if n := strings.Count(log.String(), decisionlog.Message); n != objects {
			t.Errorf("the log has %d of %d moves", n, objects)
		}
		pass(t, 2*time.Minute)
		want := fmt.Sprintf(`Namespace shop/shop PlacementRemediated: PlacementPolicy "p": %d more objects were patched; cause: the object or its namespace changed`,
			objects-first)
		if diff := cmp.Diff([]string{want}, recorder.take()); diff != "" {
			t.Errorf("later events (-want +got):\n%s", diff)
		}
	})
}

// TestSumsOfObjectsWithoutANamespace checks that the sum of Events on objects without a namespace is on the policy, and names none of them.
func TestSumsOfObjectsWithoutANamespace(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := placementv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	p := &placementv1.PlacementPolicy{}
	p.Name = "p"
	l, recorder := newLeader(t), &onPolicies{}
	l.Events, l.Policies = events.New(recorder), fake.NewClientBuilder().WithScheme(scheme).WithObjects(p).Build()
	due := remediation.Due{{Policy: &placement.Policy{Name: "p"}}}
	for i := range 12 {
		o := deployment(fmt.Sprintf("hidden-%d", i), "", "")
		o.SetNamespace("")
		l.emit(&scope{key: keyOf(deployments, o), object: o}, events.RemediationFailed, due, "", "no")
	}
	l.emitSums(t.Context(), true)
	want := []string{`p PlacementRemediationFailed: PlacementPolicy "p": 2 more patches or evictions failed, possibly for other reasons than those in the Events on the first objects`}
	if diff := cmp.Diff(want, recorder.lines); diff != "" {
		t.Errorf("events on policies (-want +got):\n%s", diff)
	}
}

// onPolicies keeps Events on policies, as lines of text.
type onPolicies struct{ lines []string }

func (e *onPolicies) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	if p, ok := about.(*placementv1.PlacementPolicy); ok {
		e.lines = append(e.lines, fmt.Sprintf("%s %s: %s", p.Name, reason, fmt.Sprintf(note, args...)))
	}
}
