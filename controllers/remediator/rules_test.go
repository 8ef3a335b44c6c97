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
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/growth"
)

// evaluations counts the evaluations of policies.
type evaluations struct {
	embedded.Observer
	n atomic.Int64
}

func (e *evaluations) DecisionCacheMiss()   { e.n.Add(1) }
func (*evaluations) DecisionCacheHit()      {}
func (*evaluations) RuleCacheUsed(int, int) {}

// thresholds is a policy of rules with a threshold. Clusters have the levels 0, 1, 2, 3, and 9.
func thresholds(t testing.TB, level string, mode placementv1.RemediationMode) placementv1.PlacementPolicySpec {
	t.Helper()
	spec := onDeployments("", "")
	spec.Rego, spec.RegoVersion, spec.Remediation.Mode = "", "", mode
	text := fmt.Sprintf(`
- name: eu
  when:
    annotations: [{key: %s, operator: In, values: ["true"]}]
  require:
  - {label: topology.berth.dev/jurisdiction, operator: In, values: [eu]}
  - {label: compliance.berth.dev/pci-level, operator: Gte, valueFrom: {annotation: %s}}
- name: others
  require:
  - {label: compliance.berth.dev/pci-level, operator: Gte, values: ["%s"]}
`, euAnnotation, pciAnnotation, level)
	if err := yaml.UnmarshalStrict([]byte(text), &spec.Rules); err != nil {
		t.Fatal(err)
	}
	return spec
}

// newThresholdLeader returns a leader with placed objects, and the counter of its evaluations.
func newThresholdLeader(t testing.TB, objects int, mode placementv1.RemediationMode) (*leader, *evaluations) {
	t.Helper()
	return newRulesLeader(t, objects, 50, thresholds(t, "2", mode))
}

// newRulesLeader returns a leader with clusters, a policy of rules, and placed objects, and the counter of its evaluations.
func newRulesLeader(t testing.TB, objects, clusters int, spec placementv1.PlacementPolicySpec) (*leader, *evaluations) {
	t.Helper()
	l, seen := newLeader(t), &evaluations{}
	l.eng.Observer = seen
	profilesOf := fleet(clusters)
	for _, o := range profilesOf {
		replication.Known().Prepare(profiles, o)
	}
	l.data.Load(profiles, projection.AllFields(), profilesOf)
	l.apply("p", spec)
	l.catchUp(t.Context())
	fields := l.types.fields(deployments)
	list := make([]*unstructured.Unstructured, objects)
	for i := range list {
		list[i] = l.placed(workload(t, i))
		l.cut(fields, list[i])
	}
	l.fill(deployments, list)
	l.drain()
	l.catchUp(t.Context())
	l.drain()
	return l, seen
}

// change changes the threshold, and returns how many objects were looked at, and how often the policy was evaluated.
func (l *leader) change(seen *evaluations, level string, mode placementv1.RemediationMode) (objects int, evaluated int64) {
	l.t.Helper()
	before := seen.n.Load()
	l.apply("p", thresholds(l.t, level, mode))
	l.catchUp(l.t.Context())
	objects = l.drain()
	l.catchUp(l.t.Context())
	return objects + l.drain(), seen.n.Load() - before
}

// TestThresholdsThatNoClusterCrosses verifies that another threshold of a rule that gives no other clusters writes nothing and decides no
// object again, however many objects there are.
func TestThresholdsThatNoClusterCrosses(t *testing.T) {
	const automatic = placementv1.RemediationAutomatic
	for _, objects := range []int{100, 1000} {
		t.Run(fmt.Sprint(objects), func(t *testing.T) {
			l, seen := newThresholdLeader(t, objects, automatic)
			l.Events = events.New(nobody{})
			patches := 0
			l.Patcher.Client = patcher{patch: func(name string) (*unstructured.Unstructured, error) {
				patches++
				return nil, fmt.Errorf("nothing is patched in this test: %s", name)
			}}
			for _, level := range []string{"1.5", "1.01", "2"} {
				if _, evaluated := l.change(seen, level, automatic); evaluated != 0 {
					t.Errorf("level %s: evaluated %d times", level, evaluated)
				}
				if r := l.Ledger.Report("p"); r.Matched != objects || r.Violations != 0 || patches != 0 {
					t.Errorf("level %s: %d matched, %d violations, %d patches", level, r.Matched, r.Violations, patches)
				}
			}
			// Clusters of level 2 do not meet this one. Half of the objects are decided by the rule.
			l.change(seen, "2.5", placementv1.RemediationManual)
			if r := l.Ledger.Report("p"); r.Violations != objects/2 {
				t.Errorf("%d violations of a threshold that clusters cross", r.Violations)
			}
		})
	}
}

// BenchmarkThreshold changes a threshold of a rule that no cluster crosses, with 10,000 placed Deployments, of which the policy sees 10
// different projections.
func BenchmarkThreshold(b *testing.B) {
	const objects = 10_000
	l, seen := newThresholdLeader(b, objects, manual)
	var evaluated int64
	var spent time.Duration
	i := 0
	for b.Loop() {
		start := growth.ProcessorTime(b)
		_, n := l.change(seen, []string{"1.5", "2"}[i%2], manual)
		spent += growth.ProcessorTime(b) - start
		evaluated += n
		i++
	}
	if r := l.Ledger.Report("p"); r.Matched != objects || r.Violations != 0 {
		b.Fatalf("%d matched, %d violations", r.Matched, r.Violations)
	}
	b.ReportMetric(spent.Seconds()*1e3/float64(b.N), "cpu-ms/all")
	b.ReportMetric(float64(evaluated)/float64(b.N), "evaluated/change")
}

// preferring is a policy that chooses one cluster for each object, and prefers those in the EU.
func preferring(t testing.TB) placementv1.PlacementPolicySpec {
	t.Helper()
	spec := onDeployments("", "")
	spec.Rego, spec.RegoVersion, spec.Remediation.Mode = "", "", manual
	const text = `[{name: a, limit: 1, prefer: [{label: topology.berth.dev/jurisdiction, operator: In, values: [eu], weight: 10}]}]`
	if err := yaml.UnmarshalStrict([]byte(text), &spec.Rules); err != nil {
		t.Fatal(err)
	}
	return spec
}

// moveCluster gives a cluster another jurisdiction, and returns how many objects were decided because of that.
func (l *leader) moveCluster(i int, jurisdiction string) int {
	l.t.Helper()
	o := profile(i, jurisdiction, "0")
	replication.Known().Prepare(profiles, o)
	if !l.data.Put(profiles, o) {
		l.t.Fatal("nothing changed")
	}
	l.catchUp(l.t.Context())
	return l.drain()
}

// TestOnlyConcernedObjectsAreDecided verifies that a cluster that becomes better causes the decisions on the objects that it is now best
// for, and no others, and that deciding all objects finds no other violation.
func TestOnlyConcernedObjectsAreDecided(t *testing.T) {
	const objects = 1000
	l, seen := newRulesLeader(t, objects, 50, preferring(t))
	for i, jurisdiction := range []string{"eu", "us", "eu"} {
		before := seen.n.Load()
		decided := l.moveCluster(1, jurisdiction)
		// There are 25 others in the EU. What moved there is a violation, because nothing is patched.
		if decided < 20 || decided > 60 || seen.n.Load() != before+1 {
			t.Errorf("change %d: %d objects decided by %d evaluations", i, decided, seen.n.Load()-before)
		}
		violations := l.Ledger.Report("p").Violations
		if want := []int{decided, 0, decided}[i]; violations != want {
			t.Errorf("change %d: %d violations of %d decided objects", i, violations, decided)
		}
		var all []remediation.Key
		for _, byNamespace := range l.objects.Idle(func(schema.GroupVersionResource) bool { return true }) {
			for _, keys := range byNamespace {
				all = append(all, keys...)
			}
		}
		l.objects.Enqueue(all...)
		if n := l.drain(); n != objects || l.Ledger.Report("p").Violations != violations {
			t.Errorf("change %d: %d violations after %d objects were decided, and %d before", i, l.Ledger.Report("p").Violations, n, violations)
		}
	}
}

// BenchmarkChoices moves one of 1,000 clusters to the jurisdiction that a rule prefers, and back, with many placed Deployments of distinct
// names, for each of which the rule chooses one cluster.
func BenchmarkChoices(b *testing.B) {
	l, _ := newRulesLeader(b, manyObjects, 1000, preferring(b))
	decided, i := 0, 0
	start := growth.ProcessorTime(b)
	for b.Loop() {
		decided += l.moveCluster(1, []string{"eu", "us"}[i%2])
		i++
	}
	b.ReportMetric((growth.ProcessorTime(b)-start).Seconds()*1e3/float64(i), "cpu-ms/all")
	b.ReportMetric(float64(decided)/float64(i)/float64(manyObjects), "decided/object")
}
