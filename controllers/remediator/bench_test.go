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
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/packed"
	"github.com/berth-dev/berth/internal/patching"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/growth"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	profiles    = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
)

const (
	euAnnotation          = "policy.federation.alpha.kubernetes.io/eu-jurisdiction-required"
	pciAnnotation         = "policy.federation.alpha.kubernetes.io/pci-compliance-level"
	preferencesAnnotation = "federation.kubernetes.io/replica-set-preferences"
)

// served is an API server that serves Deployments and ClusterProfiles.
type served struct{}

func (served) all() []policy.Resource {
	return []policy.Resource{{GroupVersionResource: deployments, Namespaced: true}, {GroupVersionResource: profiles, Namespaced: true}}
}

func (s served) ByPlural(plural string) []policy.Resource {
	return slices.DeleteFunc(s.all(), func(r policy.Resource) bool { return r.Resource != plural })
}

func (s served) Exact(r schema.GroupVersionResource) (policy.Resource, bool) {
	i := slices.IndexFunc(s.all(), func(other policy.Resource) bool { return other.GroupVersionResource == r })
	if i < 0 {
		return policy.Resource{}, false
	}
	return s.all()[i], true
}

// Inventories returns the inventories that Berth knows by default.
func (served) Inventories() *replication.Inventories { return replication.Known() }

func (s served) Select(selects func(schema.GroupVersionResource) bool) []policy.Resource {
	return slices.DeleteFunc(s.all(), func(r policy.Resource) bool { return !selects(r.GroupVersionResource) })
}

func (served) Kind(schema.GroupVersionResource) string { return "Deployment" }

// teams labels each namespace with its own name.
type teams struct{}

func (teams) Labels(_ context.Context, name string) (map[string]string, error) {
	return map[string]string{"team": name}, nil
}

// leader is a controller with an engine and without an API server. The test drains its queue.
type leader struct {
	*Controller
	t    testing.TB
	data *embedded.Data
	eng  *embedded.Engine
	// world contains the nodes and pods that predicates read.
	world *predicates.NodeCache
	work  *queue
}

// queue is a workqueue that the test drains.
type queue struct {
	mu   sync.Mutex
	keys []remediation.Key
	in   map[remediation.Key]bool
	// after contains the delays of delayed additions, which the queue only records.
	after map[remediation.Key][]time.Duration
}

func (q *queue) Add(id remediation.CompactKey) {
	key := id.Key()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.in[key] {
		q.in[key] = true
		q.keys = append(q.keys, key)
	}
}

func (q *queue) AddAfter(id remediation.CompactKey, d time.Duration) {
	key := id.Key()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.after == nil {
		q.after = map[remediation.Key][]time.Duration{}
	}
	q.after[key] = append(q.after[key], d)
}

func (*queue) AddRateLimited(remediation.CompactKey)  {}
func (*queue) Forget(remediation.CompactKey)          {}
func (*queue) NumRequeues(remediation.CompactKey) int { return 0 }
func (*queue) Done(remediation.CompactKey)            {}
func (*queue) ShutDown()                              {}
func (*queue) ShutDownWithDrain()                     {}
func (*queue) ShuttingDown() bool                     { return false }
func (q *queue) Len() int                             { return len(q.keys) }

func (q *queue) Get() (remediation.CompactKey, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.keys) == 0 {
		return remediation.CompactKey{}, true
	}
	key := q.keys[0]
	q.keys = q.keys[1:]
	delete(q.in, key)
	return key.Compact(), false
}

func newLeader(t testing.TB) *leader {
	t.Helper()
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	keyring, err := placement.NewKeyring(make([]byte, placement.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	known, err := predicates.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	set, err := known.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	data, world := embedded.NewData(), predicates.NewNodeCache()
	registry := placement.NewRegistry()
	l := &leader{
		t: t, data: data, world: world,
		eng:  embedded.New(data, embedded.Options{Timeout: time.Minute, Concurrency: 4, Predicates: set, World: world}),
		work: &queue{in: map[remediation.Key]bool{}},
	}
	ledger := remediation.NewLedger()
	l.Controller = New(Deps{
		Patcher: &patching.Patcher{}, Registry: registry, Decider: &placement.Decider{Policies: registry, Namespaces: teams{}, Keyring: keyring},
		Catalog: served{}, Data: data, Ledger: ledger, Scheduler: remediation.NewScheduler(remediation.Limits{}, ledger, registry.FeedsItself), Deliveries: undelivered{}, Metrics: m, Clock: clock.RealClock{},
		Ready: func(context.Context) bool { return true }, Changed: func(string) {},
	})
	l.objects.Start(l.work)
	t.Cleanup(l.releases.ShutDown)
	return l
}

// undelivered says that no object is delivered.
type undelivered struct{}

func (undelivered) Result(schema.GroupVersionResource, string, string) delivery.Result {
	return delivery.Result{}
}
func (undelivered) Pending(schema.GroupVersionResource, string, string) bool { return false }
func (undelivered) Reporting(schema.GroupVersionResource) (reports, settled bool) {
	return false, true
}

// apply puts a policy in force.
func (l *leader) apply(name string, spec placementv1.PlacementPolicySpec) {
	l.t.Helper()
	spec = spec.WithDefaults()
	module, err := policy.Compile(name, spec)
	if err != nil {
		l.t.Fatal(err)
	}
	binding, err := policy.Bind(name, module, nil, served{})
	if err != nil {
		l.t.Fatal(err)
	}
	if module.Nodes {
		binding.PredicateReads = predicates.Reads()
	}
	evaluator, err := l.eng.Prepare(l.t.Context(), name, module, binding)
	if err != nil {
		l.t.Fatal(err)
	}
	if before := l.Registry.Get(name); before != nil {
		evaluator.(placement.Successor).TakeOver(l.t.Context(), before.Policy.Evaluator)
	}
	matcher, errs := match.New(spec.Match, field.NewPath("match"))
	if len(errs) > 0 {
		l.t.Fatal(errs.ToAggregate())
	}
	l.Registry.Set(name, &placement.PolicyState{Binding: binding, Generation: 1, Policy: &placement.Policy{
		Name: name, Generation: 1, Mode: spec.Mode, FailurePolicy: spec.FailurePolicy, Remediation: spec.Remediation.Mode,
		Priority: spec.Priority, Evict: spec.Remediation.Evict, Matcher: matcher, Evaluator: evaluator,
	}})
}

// fill makes the objects the complete content of a type, cut like the watches do it.
func (l *leader) fill(resource schema.GroupVersionResource, objects []*unstructured.Unstructured) {
	fields := l.types.fields(resource)
	for _, o := range objects {
		l.cut(fields, o)
	}
	l.objects.Replace(resource, fields, objects)
}

func (l *leader) cut(fields *projection.FieldSet, o *unstructured.Unstructured) {
	if fields != nil {
		o.Object = projection.Union(fields, identity).Project(o.Object)
	}
}

// identity is the field set that the watches never remove from an object.
var identity = func() *projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("apiVersion")
	f.AddName("kind")
	for _, name := range []string{"name", "namespace", "uid", "resourceVersion", "deletionTimestamp"} {
		f.AddName("metadata").AddName(name)
	}
	return f.Seal()
}()

// drain decides all queued objects and returns their number.
func (l *leader) drain() int {
	n := 0
	for {
		key, empty := l.work.Get()
		if empty {
			return n
		}
		n++
		if _, err := l.Reconcile(l.t.Context(), key); err != nil {
			l.t.Fatal(err)
		}
	}
}

// federationPolicy returns the Federation policy of test/bench/fixture, which patches nothing.
func federationPolicy(t testing.TB) placementv1.PlacementPolicySpec {
	t.Helper()
	text, err := os.ReadFile("../../test/bench/fixture/federation.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p placementv1.PlacementPolicy
	if err := yaml.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	p.Spec.RegoVersion = placementv1.RegoV1
	p.Spec.Remediation.Mode = placementv1.RemediationManual
	return p.Spec
}

// profile returns a cluster.
func profile(i int, jurisdiction, level string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
		"metadata": map[string]any{"namespace": "fleet", "name": fmt.Sprintf("cluster-%d", i)},
		"spec":     map[string]any{"clusterManager": map[string]any{"name": "fleet"}},
	}}
	o.SetLabels(map[string]string{"topology.berth.dev/jurisdiction": jurisdiction, "compliance.berth.dev/pci-level": level})
	return o
}

// fleet returns n clusters. Half of them are in the EU, and they have four PCI levels. The first one meets every
// requirement.
func fleet(n int) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, n)
	for i := range out {
		out[i] = profile(i, []string{"eu", "us"}[i%2], fmt.Sprint(i/2%4))
	}
	out[0] = profile(0, "eu", "9")
	return out
}

// workload returns a Deployment of the usual size as the API server sends it. The fields that the policy reads have 40
// variants.
func workload(t testing.TB, i int) *unstructured.Unstructured {
	t.Helper()
	text := strings.NewReplacer("{name}", fmt.Sprintf("web-%d", i), "{namespace}", fmt.Sprintf("shop-%d", i/100),
		"{number}", fmt.Sprintf("%012d", i), "{version}", fmt.Sprint(100000+i)).Replace(workloadTexts()[i%workloadVariants])
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return out
}

// workloadVariants is the number of different workloads, apart from their names, numbers, and versions.
const workloadVariants = 40

// workloadTexts returns the JSON of each variant, with patterns that stand for what else differs.
var workloadTexts = sync.OnceValue(func() (out [workloadVariants]string) {
	for i := range out {
		out[i] = workloadText(i)
	}
	return out
})

func workloadText(i int) string {
	annotations := map[string]any{
		pciAnnotation: fmt.Sprint(1 + i%5), "deployment.kubernetes.io/revision": "7", "example.com/owner": "shop",
	}
	if i/5%2 == 0 {
		annotations[euAnnotation] = "true"
	}
	if asked := i / 10 % 4; asked > 0 {
		annotations[preferencesAnnotation] = fmt.Sprintf(`{"clusters":{"cluster-0":{"weight":1},"cluster-%d":{"weight":1}}}`, asked)
	}
	labels := map[string]any{"app.kubernetes.io/name": "{name}", "team": "shop", "tier": "front"}
	containers := []any{}
	for c := range 3 {
		containers = append(containers, map[string]any{
			"name": fmt.Sprintf("c%d", c), "image": "registry.example/shop/web:1.2.3", "imagePullPolicy": "IfNotPresent",
			"env":            []any{map[string]any{"name": "MODE", "value": "production"}, map[string]any{"name": "LEVEL", "value": "info"}},
			"resources":      map[string]any{"limits": map[string]any{"cpu": "500m", "memory": "512Mi"}, "requests": map[string]any{"cpu": "100m", "memory": "128Mi"}},
			"ports":          []any{map[string]any{"containerPort": 8080, "protocol": "TCP", "name": "http"}},
			"readinessProbe": map[string]any{"httpGet": map[string]any{"path": "/ready", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1},
			"volumeMounts":   []any{map[string]any{"name": "config", "mountPath": "/etc/web", "readOnly": true}},
		})
	}
	template := map[string]any{
		"metadata": map[string]any{"labels": labels},
		"spec": map[string]any{
			"containers": containers, "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
			"securityContext": map[string]any{"runAsNonRoot": true}, "terminationGracePeriodSeconds": 30,
			"volumes": []any{map[string]any{"name": "config", "configMap": map[string]any{"name": "web", "defaultMode": 420}}},
		},
	}
	spec := map[string]any{
		"replicas": 3, "selector": map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}},
		"template": template, "strategy": map[string]any{"type": "RollingUpdate"}, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
	}
	// There is nothing but JSON's own types.
	applied, _ := json.Marshal(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec})
	annotations[lastApplied] = string(applied)
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": "{name}", "namespace": "{namespace}", "uid": "7f3c0a9e-1d2b-4c5d-8e6f-{number}",
			"resourceVersion": "{version}", "generation": 7, "creationTimestamp": "2026-01-01T00:00:00Z",
			"labels": labels, "annotations": annotations,
		},
		"spec": spec,
		"status": map[string]any{"replicas": 3, "observedGeneration": 7, "readyReplicas": 3, "conditions": []any{
			map[string]any{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "lastTransitionTime": "2026-01-01T00:00:00Z"},
		}},
	})
	return string(text)
}

// placed returns the object as the webhook would store it.
func (l *leader) placed(o *unstructured.Unstructured) *unstructured.Unstructured {
	l.t.Helper()
	key := keyOf(deployments, o)
	out, err := l.Decider.Decide(l.t.Context(), placement.Request{
		Resource: deployments, Namespace: key.Namespace, Object: o,
		Admission: &admissionv1.AdmissionRequest{Operation: admissionv1.Create},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if out.Object == nil {
		return o
	}
	return out.Object
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// manyObjects is the number of objects of BenchmarkClusterChanges and BenchmarkPlan.
var manyObjects = budget.Size(30_000, 100_000)

// BenchmarkClusterChanges measures how long it takes to decide many placed Deployments again when one of 50 clusters
// changes. The fields that the policy reads have 40 variants. In one case no decision changes, in the other one all do.
func BenchmarkClusterChanges(b *testing.B) {
	objects := manyObjects
	// The preparations leave much garbage, and are not measured.
	garbage := debug.SetGCPercent(400)
	l := newLeader(b)
	l.data.Load(profiles, projection.AllFields(), fleet(50))
	l.apply("eu-pci", federationPolicy(b))
	l.catchUp(b.Context())
	before := heap()
	list := make([]*unstructured.Unstructured, objects)
	fields := l.types.fields(deployments)
	for i := range list {
		list[i] = l.placed(workload(b, i))
		l.cut(fields, list[i])
	}
	l.fill(deployments, list)
	if n := l.drain(); n < objects {
		b.Fatalf("%d decided", n)
	}
	l.catchUp(b.Context())
	l.drain()
	// The queue of the test keeps the memory of all keys that were in it.
	l.work.keys, l.work.in = nil, map[remediation.Key]bool{}
	perObject := float64(heap()-before) / float64(objects)
	debug.SetGCPercent(garbage)

	for _, bench := range []struct {
		name    string
		change  func(i int) *unstructured.Unstructured
		decided int
	}{
		{"NoDecision", func(i int) *unstructured.Unstructured { return profile(1, []string{"ca", "us"}[i%2], "0") }, 0},
		{"EachDecision", func(i int) *unstructured.Unstructured { return profile(0, "eu", []string{"0", "9"}[i%2]) }, objects},
	} {
		b.Run("changes="+bench.name, func(b *testing.B) {
			var sweeping, deciding time.Duration
			i := 0
			for b.Loop() {
				start := growth.ProcessorTime(b)
				if !l.data.Put(profiles, bench.change(i)) {
					b.Fatal("nothing changed")
				}
				l.catchUp(b.Context())
				swept := growth.ProcessorTime(b)
				if n := l.drain(); n != bench.decided {
					b.Fatalf("%d decided, want %d", n, bench.decided)
				}
				sweeping += swept - start
				deciding += growth.ProcessorTime(b) - swept
				i++
			}
			b.ReportMetric(sweeping.Seconds()*1e3/float64(b.N), "cpu-ms/sweep")
			b.ReportMetric((sweeping+deciding).Seconds()*1e3/float64(b.N), "cpu-ms/all")
			b.ReportMetric(perObject, "heap-B/object")
		})
	}
}

// BenchmarkPlan measures how long it takes to record that many objects have to be moved, in 40 different ways, and to make the
// plan.
func BenchmarkPlan(b *testing.B) {
	const variants = 40
	objects := manyObjects
	p := &placement.Policy{Name: "p", Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic}
	keys := make([]remediation.Key, objects)
	for i := range keys {
		keys[i] = remediation.Key{Resource: deployments, Namespace: fmt.Sprintf("shop-%d", i%100), Name: fmt.Sprintf("web-%d", i)}
	}
	start := growth.ProcessorTime(b)
	for b.Loop() {
		l := remediation.NewLedger()
		a := l.Assess(time.Time{}, remediation.Cause{}, p.Name)
		a.Add(keys...)
		a.Complete()
		for i, key := range keys {
			v := &placement.Verdict{Policy: p, Changes: []placement.Change{{
				Field: "annotations", Key: placementv1.ClustersAnnotation, From: new(`["eu1","us1"]`), To: new(fmt.Sprintf(`["eu%d"]`, i%variants)),
			}}}
			l.Record(key, types.UID(key.Name), "1", []*placement.Verdict{v}, false)
		}
		l.ConcludeAssessments(time.Time{})
		if plan := l.Report(p.Name).Plan; plan == nil || plan.Moves != objects {
			b.Fatalf("plan %+v", plan)
		}
	}
	b.ReportMetric((growth.ProcessorTime(b)-start).Seconds()*1e3/float64(b.N), "cpu-ms/all")
}

// inNamespaces returns the selector for a policy's share of the namespaces.
func inNamespaces(i, policies, namespaces int) *metav1.LabelSelector {
	share := []string{}
	for n := i; n < max(policies, namespaces); n += policies {
		share = append(share, fmt.Sprintf("shop-%d", n%namespaces))
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: share}}}
}

// BenchmarkStart measures the start of a leader with policies and placed objects, with one policy for each object.
func BenchmarkStart(b *testing.B) {
	for _, size := range []struct{ policies, objects int }{{100, 1000}, {100, 10_000}, {1000, 10_000}} {
		b.Run(fmt.Sprintf("policies=%d/objects=%d", size.policies, size.objects), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				l := newLeader(b)
				l.data.Load(profiles, projection.AllFields(), fleet(100))
				specs := map[string]placementv1.PlacementPolicySpec{}
				for i := range size.policies {
					spec := onDeployments(fmt.Sprintf(`annotations["example.com/clusters"] := sort([name | c := data.clusters[name]; c.labels["topology.berth.dev/jurisdiction"] == "eu"])
						annotations["example.com/team"] := "%d"`, i), "")
					spec.Match.NamespaceSelector = inNamespaces(i, size.policies, size.objects/100)
					specs[fmt.Sprintf("p-%d", i)] = spec
				}
				for name, spec := range specs {
					l.apply(name, spec)
				}
				list := make([]*unstructured.Unstructured, size.objects)
				for i := range list {
					list[i] = workload(b, i)
				}
				start := growth.ProcessorTime(b)
				b.StartTimer()
				l.catchUp(b.Context())
				l.fill(deployments, list)
				n := l.drain()
				l.catchUp(b.Context())
				n += l.drain()
				b.ReportMetric((growth.ProcessorTime(b) - start).Seconds(), "cpu-s/start")
				b.ReportMetric(float64(n)/float64(size.objects), "decisions/object")
			}
		})
	}
}

// BenchmarkPacking measures the heap of a matched object, as maps and packed: of one that is cut to its metadata, and of a whole one.
func BenchmarkPacking(b *testing.B) {
	const objects = 5000
	for name, fields := range map[string]*projection.FieldSet{"Some": projection.Union(always, identity), "All": projection.AllFields()} {
		for _, packs := range []bool{false, true} {
			b.Run(fmt.Sprintf("fields=%s/packed=%t", name, packs), func(b *testing.B) {
				for b.Loop() {
					before, p := heap(), packed.NewPacker()
					texts, maps := make([]packed.Object, 0, objects), make([]*unstructured.Unstructured, 0, objects)
					for i := range objects {
						o := workload(b, i)
						trim(fields, o)
						o.Object = fields.Copy(o.Object)
						if packs {
							texts = append(texts, p.Pack(o))
						} else {
							maps = append(maps, o)
						}
					}
					b.ReportMetric(float64(heap()-before)/objects, "heap-B/object")
					runtime.KeepAlive(p)
					runtime.KeepAlive(texts)
					runtime.KeepAlive(maps)
				}
			})
		}
	}
}
