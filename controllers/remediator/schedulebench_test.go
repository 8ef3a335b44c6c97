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
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/growth"
)

// BenchmarkSchedule measures a pass of the scheduler while objects of a thousand namespaces wait for one that is being moved.
func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			s := remediation.NewScheduler(remediation.Limits{}, remediation.NewLedger(), func(string) bool { return false })
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			s.Begin(start.Add(-time.Hour))
			p := &placement.Policy{Name: "p", Generation: 1, Budget: placementv1.RemediationBudget{MaxConcurrent: 1, MaxPerMinute: 60_000}}
			s.PolicyChanged(start, "p", p)
			due := remediation.Due{{Policy: p}}
			key := func(i int) remediation.Key {
				return remediation.Key{Resource: deployments, Namespace: fmt.Sprint("team-", i%1_000), Name: fmt.Sprint("web-", i)}
			}
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			for i := range n + 1 {
				s.Ask(start, key(i), obj, due, remediation.Carrier{})
			}
			now, moved := start, key(0)
			runtime.GC()
			began := growth.ProcessorTime(b)
			for b.Loop() {
				now = now.Add(time.Minute)
				s.Done(now, moved, due, remediation.Patch{Ending: remediation.Made})
				next := s.Schedule(now)
				if len(next.Keys) != 1 {
					b.Fatalf("%d objects may go on", len(next.Keys))
				}
				if ok, _ := s.Ask(now, next.Keys[0], obj, due, remediation.Carrier{}); !ok {
					b.Fatal("an object that may go on waits")
				}
				// The one that was moved needs another patch, so that as many wait.
				s.Ask(now, moved, obj, due, remediation.Carrier{})
				moved = next.Keys[0]
			}
			b.ReportMetric(float64(growth.ProcessorTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}
