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

package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/budget"
)

// racePolicies read the version of the data, each in another way, and return it. All nodes have the same version at any
// time.
var racePolicies = []string{
	`all contains v if some v in versions
versions := {n: node.version | some n, node in data.kubernetes.nodes}`,
	`all contains node.version if { some n; node := data.kubernetes.nodes[n]; startswith(n, input.prefix) }`,
	`versions[n] := node.version if some n, node in data.kubernetes.nodes
all contains versions[n] if { some n; startswith(n, input.prefix) }`,
	`version(node) := node.version
all contains version(data.kubernetes.nodes[n]) if { ready; some n in object.keys(data.kubernetes.nodes) }
ready if every _, node in data.kubernetes.nodes { node.version > 0 }`,
}

// raceText returns one of the policies. The number makes its text unique without changing its decisions.
func raceText(policy, number int) string {
	return fmt.Sprintf(`package p
# %d
%s
labels := {"id": input.id}
annotations := {"versions": sort([v | some v in all]), "policy": %q}
`,
		number, racePolicies[policy], strconv.Itoa(number))
}

// TestDecisionsUnderChange lets several policies decide while the data and the policies change. It is mainly for the
// race detector. Each decision must be of one version of the data. That version is not older than the last one that was
// published when the evaluation began, and not newer than the last one whose publication had begun when the evaluation
// ended.
func TestDecisionsUnderChange(t *testing.T) {
	const size = 12
	world := func(version int) []*unstructured.Unstructured {
		out := make([]*unstructured.Unstructured, size)
		for i := range out {
			out[i] = document("", fmt.Sprintf("n%d", i), "version", int64(version))
		}
		return out
	}
	data := NewData()
	data.Replace(nodes.GroupVersionResource, world(1))
	data.Replace(pods.GroupVersionResource, nil)
	e := New(data, Options{Timeout: time.Minute, Concurrency: 3})
	// A decision is of a version from published, read at its beginning, to begun, read at its end.
	var begun, published, numbers atomic.Int64
	begun.Store(1)
	published.Store(1)
	put := func(policy int) (placement.Evaluator, int) {
		number := int(numbers.Add(1))
		ev, err := raceEvaluator(t.Context(), e, raceText(policy, number))
		if err != nil {
			t.Error(err)
		}
		return ev, number
	}
	type inForce struct {
		evaluator placement.Evaluator
		number    int
	}
	current := make([]atomic.Pointer[inForce], len(racePolicies))
	for i := range current {
		ev, number := put(i)
		current[i].Store(&inForce{ev, number})
	}
	if t.Failed() {
		t.FailNow()
	}

	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	writers.Go(func() {
		for version := 2; ; version++ {
			select {
			case <-stop:
				return
			default:
			}
			begun.Store(int64(version))
			data.Replace(nodes.GroupVersionResource, world(version))
			published.Store(int64(version))
		}
	})
	writers.Go(func() {
		// Data that no policy reads is added and removed.
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprint(i % 5)
			data.Put(pods.GroupVersionResource, document("a", name, "round", int64(i)))
			data.Delete(pods.GroupVersionResource, "a", fmt.Sprint((i+2)%5))
		}
	})
	writers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			ev, number := put(i % len(racePolicies))
			current[i%len(racePolicies)].Store(&inForce{ev, number})
		}
	})
	for worker := range 4 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 0))
			for i := range budget.Rounds(400) {
				p := current[random.IntN(len(current))].Load()
				input := map[string]any{"id": fmt.Sprint(random.IntN(3)), "prefix": []string{"n", "n1"}[random.IntN(2)]}
				low := published.Load()
				d, err := p.evaluator.Evaluate(t.Context(), input)
				high := begun.Load()
				if err != nil {
					t.Error(err)
					return
				}
				var versions []int64
				if err := json.Unmarshal([]byte(d.Annotations["versions"]), &versions); err != nil || len(versions) != 1 {
					t.Errorf("decision %d is of versions %s", i, d.Annotations["versions"])
					return
				}
				if versions[0] < low || versions[0] > high || d.Labels["id"] != input["id"] || d.Annotations["policy"] != strconv.Itoa(p.number) {
					t.Errorf("decision %v of policy %d on %v, while the data went from version %d to %d", d, p.number, input, low, high)
					return
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	writers.Wait()
	t.Logf("%d versions of the data, %d of policies", begun.Load(), numbers.Load())
}

func raceEvaluator(ctx context.Context, e *Engine, text string) (placement.Evaluator, error) {
	spec := v1(text)
	m, err := policy.Compile("p", spec)
	if err != nil {
		return nil, err
	}
	b, err := policy.Bind("p", m, nil, everything)
	if err != nil {
		return nil, err
	}
	return e.Prepare(ctx, "p", m, b)
}
