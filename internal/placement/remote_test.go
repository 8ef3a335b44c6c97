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

package placement_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
)

// distant is a remote evaluator that takes some time.
type distant struct {
	placement.Evaluator
	takes time.Duration
	panic bool
}

func (d *distant) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	if d.panic {
		panic("of the client")
	}
	over := time.NewTimer(d.takes)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return placement.Decision{}, fmt.Errorf("engine: %w", ctx.Err())
	case <-over.C:
	}
	return d.Evaluator.Evaluate(ctx, input)
}

func (*distant) Health() placement.RemoteHealth { return placement.RemoteHealth{} }

// evaluateRemote returns the policy with a remote evaluator.
func evaluateRemote(p *placement.Policy, takes time.Duration) *placement.Policy {
	out := *p
	out.Evaluator = &distant{Evaluator: p.Evaluator, takes: takes}
	return &out
}

func decider(t *testing.T, all ...*placement.Policy) *placement.Decider {
	t.Helper()
	return &placement.Decider{Policies: policies(all), Namespaces: namespaces{}, Keyring: keyring(t, "k")}
}

// TestSlowOnesDelayNobody checks that remote evaluators run concurrently with all others, and until the request's
// deadline at most.
func TestSlowOnesDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		at := make(chan time.Duration, 5)
		evaluate := func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
			d, err := p.Evaluator.Evaluate(ctx, input)
			if p.Name == "b-local" {
				at <- time.Since(start)
			}
			return d, err
		}
		out, err := decider(t,
			evaluateRemote(sets(t, "a-hangs", 9, "a", "1"), time.Hour), sets(t, "b-local", 0, "b", "1"), evaluateRemote(sets(t, "c-slow", 0, "c", "1"), 3*time.Second),
			evaluateRemote(sets(t, "d-slow", 0, "d", "1"), 3*time.Second), evaluateRemote(sets(t, "e-hangs", 0, "e", "1"), time.Hour),
		).Decide(ctx, placement.Request{Resource: deployments, Namespace: "default", Object: newObject("web", newMetadata()), Evaluate: evaluate})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("it takes %v", took)
		}
		if took := <-at; took != 0 {
			t.Errorf("the one that is local has decided after %v", took)
		}
		var failed []string
		for _, v := range out.Verdicts {
			if errors.Is(v.Err, context.DeadlineExceeded) {
				failed = append(failed, v.Policy.Name)
			}
		}
		if diff := cmp.Diff([]string{"a-hangs", "e-hangs"}, failed); diff != "" {
			t.Errorf("without an answer (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"b": "1", "c": "1", "d": "1"}, metadataOf(out.Object)["annotations"]); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
	})
}

// TestPanicElsewhere checks that a panic of an evaluation is an error of its policy only.
func TestPanicElsewhere(t *testing.T) {
	p := evaluateRemote(sets(t, "p", 0, "k", "1"), 0)
	p.Evaluator.(*distant).panic = true
	out, err := decider(t, p, sets(t, "q", 0, "l", "1")).Decide(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: newObject("web", newMetadata())})
	if err != nil {
		t.Fatal(err)
	}
	if v := out.Verdicts[0]; v.Err == nil || !strings.Contains(v.Err.Error(), "of the client") {
		t.Errorf("error %v", v.Err)
	}
	if v := out.Verdicts[1]; v.Err != nil || out.Object.GetAnnotations()["l"] != "1" {
		t.Errorf("the other one: %v", v.Err)
	}
}

// TestElsewhereDecidesTheSame checks that the result depends neither on where policies are evaluated nor on which of
// them finishes first.
func TestElsewhereDecidesTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for range budget.Rounds(100) {
			s := newSimulation(t, r.Uint64())
			for range 6 {
				s.change()
			}
			here := s.live
			var there []*placement.Policy
			for _, p := range here {
				if r.IntN(4) > 0 {
					p = evaluateRemote(p, time.Duration(r.IntN(3))*time.Millisecond)
				}
				there = append(there, p)
			}
			object := newObject("web", s.random())
			want, got := s.decide(here, object, nil, false), s.decide(there, object, nil, false)
			if diff := cmp.Diff(said(want), said(got)); diff != "" {
				t.Fatalf("decided (-here +there):\n%s", diff)
			}
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Fatalf("object (-here +there):\n%s", diff)
			}
		}
	})
}

// said describes the verdicts of an outcome as text.
func said(out *placement.Outcome) []string {
	lines := []string{out.Digest()}
	for _, v := range out.Verdicts {
		lines = append(lines, fmt.Sprint(v.Policy.Name, v.Decision, v.Err, v.Conflicts, len(v.Changes)))
	}
	return lines
}

// narrow is an evaluator of a policy that reads nothing but names.
type narrow struct {
	placement.Evaluator
}

func (*narrow) Input() *projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("metadata").AddName("name")
	return f.Seal()
}

// lacking is the source of an object without its spec. Completing the object changes it.
type lacking struct {
	object    *unstructured.Unstructured
	completed int
}

func (l *lacking) Fill(fields *projection.FieldSet) error {
	if fields.IsAll() {
		l.object.Object["spec"] = map[string]any{"replicas": int64(3)}
	}
	return nil
}

func (l *lacking) Complete() error {
	l.completed++
	l.object.Object["spec"] = map[string]any{"replicas": int64(3)}
	return nil
}

// reads is a remote evaluator that records whether the input was complete. It waits for others before it reads the
// input.
type reads struct {
	placement.Evaluator
	others chan struct{}
	lacked atomic.Bool
}

func (r *reads) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	<-r.others
	for _, value := range input {
		_ = fmt.Sprint(value)
	}
	r.lacked.Store(input["spec"] == nil)
	return r.Evaluator.Evaluate(ctx, input)
}

func (*reads) Health() placement.RemoteHealth { return placement.RemoteHealth{} }

// TestObjectIsCompleteElsewhere checks, with the race detector, that the object is complete before a remote evaluator
// reads it, and does not change meanwhile.
func TestObjectIsCompleteElsewhere(t *testing.T) {
	remote := &reads{Evaluator: &fakeEvaluator{}, others: make(chan struct{})}
	p, q := sets(t, "p", 0, "k", "1"), sets(t, "q", 0, "l", "1")
	p.Evaluator, q.Evaluator = remote, &narrow{Evaluator: q.Evaluator}
	object := newObject("web", newMetadata())
	delete(object.Object, "spec")
	source := &lacking{object: object}
	_, err := decider(t, p, q).Decide(t.Context(), placement.Request{
		Resource: deployments, Namespace: "default", Object: object, Source: source,
		Evaluate: func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
			if p == q {
				defer close(remote.others)
			}
			return p.Evaluator.Evaluate(ctx, input)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if remote.lacked.Load() {
		t.Error("something is missing elsewhere")
	}
	if source.completed > 0 {
		t.Errorf("completed %d times", source.completed)
	}
}
