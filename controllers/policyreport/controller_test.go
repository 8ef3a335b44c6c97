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

package policyreport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policyreport"
	"github.com/berth-dev/berth/internal/remediation"
)

// store is a client that keeps the versions of reports by resource and namespace, and records the writes.
type store struct {
	metadata.ResourceInterface
	versions map[string]int
	writes   []string
	// err is what each request returns.
	err error

	resource, namespace string
	all                 *store
}

func (s *store) Resource(r schema.GroupVersionResource) metadata.Getter {
	return &store{resource: r.Resource, all: s}
}

func (s *store) Namespace(n string) metadata.ResourceInterface {
	return &store{resource: s.resource, namespace: n, all: s.all}
}

func (s *store) key() string { return s.resource + "/" + s.namespace }

func (s *store) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	out := &metav1.PartialObjectMetadataList{}
	for key, version := range s.all.versions {
		if resource, namespace, _ := strings.Cut(key, "/"); resource == s.resource {
			out.Items = append(out.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: policyreport.Name, ResourceVersion: fmt.Sprint(version),
			}})
		}
	}
	return out, s.all.err
}

func (s *store) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*metav1.PartialObjectMetadata, error) {
	s.all.writes = append(s.all.writes, "apply "+s.key())
	if s.all.err != nil {
		return nil, s.all.err
	}
	s.all.versions[s.key()]++
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(s.all.versions[s.key()])}}, nil
}

func (s *store) Delete(context.Context, string, metav1.DeleteOptions, ...string) error {
	s.all.writes = append(s.all.writes, "delete "+s.key())
	delete(s.all.versions, s.key())
	return s.all.err
}

// served is a catalog of types.
type served map[string]string

func (s served) Kind(r schema.GroupVersionResource) string { return s[r.Resource] }
func (served) Subscribe(func())                            {}

// queue records the requests that are added to it, with their delays.
type queue struct {
	workqueue.TypedRateLimitingInterface[request]
	after map[request]time.Duration
}

func (q *queue) AddAfter(r request, d time.Duration) { q.after[r] = d }

// fixture is a controller with what it depends on.
type fixture struct {
	t *testing.T
	*Controller
	store  *store
	ledger *remediation.Ledger
	queue  *queue
}

func newFixture(t *testing.T, catalog served) *fixture {
	t.Helper()
	formats, err := policyreport.Find([]string{"openreports.io"})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, store: &store{versions: map[string]int{}}, ledger: remediation.NewLedger(), queue: &queue{after: map[request]time.Duration{}}}
	f.Controller = New(Deps{
		Format: formats[0], Client: f.store, Ledger: f.ledger, Catalog: catalog,
		Settled: func() bool { return true }, UID: func(remediation.Key) types.UID { return "" },
	})
	f.Controller.queue = f.queue
	return f
}

var all = served{"reports": "Report", "clusterreports": "ClusterReport", "deployments": "Deployment", "nodes": "Node"}

// record records the decision on a Deployment; "" for a decision that it complies with.
func (f *fixture) record(namespace, name, denial string) {
	f.recordOn(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, namespace, name, denial)
}

// recordReport records that a policy denies reports of Berth.
func (f *fixture) recordReport(namespace string) {
	f.recordOn(schema.GroupVersionResource{Group: "openreports.io", Version: "v1alpha1", Resource: "reports"}, namespace, policyreport.Name, "no")
	f.recordOn(schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}, namespace, policyreport.Name, "no")
}

func (f *fixture) recordOn(resource schema.GroupVersionResource, namespace, name, denial string) {
	v := &placement.Verdict{Policy: &placement.Policy{Name: "p"}}
	if denial != "" {
		v.Decision.Errors = []string{denial}
	}
	f.ledger.Record(remediation.Key{Resource: resource, Namespace: namespace, Name: name}, "u", "1", []*placement.Verdict{v}, false)
}

// run reconciles all requests in the queue, until there are none, and returns the writes.
func (f *fixture) run() []string {
	f.t.Helper()
	f.store.writes = nil
	for len(f.queue.after) > 0 {
		for _, r := range sortedRequests(f.queue.after) {
			delete(f.queue.after, r)
			if _, err := f.Reconcile(f.t.Context(), r); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	return f.store.writes
}

func sortedRequests(requests map[request]time.Duration) []request {
	var out []request
	for r := range requests {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b request) int { return cmp.Compare(a.namespace, b.namespace) })
	return out
}

func TestReports(t *testing.T) {
	f := newFixture(t, all)
	sync := func() { f.enqueueAfter(request{all: true}, 0) }
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"BeforeTheReportsAreKnown", func() { f.record("shop", "web", "no") }, nil},
		{"First", sync, []string{"apply reports/shop"}},
		{"NothingChanged", sync, nil},
		{"OtherMessage", func() { f.record("shop", "web", "never") }, []string{"apply reports/shop"}},
		{"Compliant", func() { f.record("shop", "api", ""); f.record("bank", "db", "") }, nil},
		{"BackAgain", func() { f.record("shop", "web", "x"); f.record("shop", "web", "never") }, nil},
		{"OnlyReportsViolate", func() { f.recordReport("quiet") }, nil},
		{"WithoutNamespace", func() { f.record("", "n1", "no") }, []string{"apply clusterreports/"}},
		{"Healed", func() { f.record("shop", "web", "") }, []string{"delete reports/shop"}},
		{"HealedAgain", func() { f.record("shop", "web", "no"); f.record("shop", "web", "") }, nil},
		{"ChangedByAnother", func() { f.store.versions["clusterreports/"]++; sync() }, []string{"apply clusterreports/"}},
		{"DeletedByAnother", func() { delete(f.store.versions, "clusterreports/"); sync() }, []string{"apply clusterreports/"}},
		{"LeftByAnEarlierLeader", func() { f.store.versions["reports/gone"] = 7; sync() }, []string{"delete reports/gone"}},
		{"PolicyDeleted", func() { f.ledger.ForgetPolicy("p") }, []string{"delete clusterreports/"}},
	} {
		step.do()
		if diff := gocmp.Diff(step.want, f.run()); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestChangesAreCollected checks that a namespace is updated some time after its first change.
func TestChangesAreCollected(t *testing.T) {
	f := newFixture(t, all)
	f.record("shop", "web", "no")
	f.record("shop", "api", "no")
	f.record("bank", "db", "")
	if diff := gocmp.Diff(map[request]time.Duration{{namespace: "shop"}: changeDelay}, f.queue.after, gocmp.AllowUnexported(request{})); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestReportsWaitUntilAllIsDecided checks that a new leader leaves the reports of an earlier one alone until it has decided
// all objects.
func TestReportsWaitUntilAllIsDecided(t *testing.T) {
	f, settled := newFixture(t, all), false
	f.Settled = func() bool { return settled }
	f.store.versions["reports/shop"] = 7
	result, err := f.Reconcile(t.Context(), request{all: true})
	if err != nil || result.RequeueAfter != settledDelay || len(f.run()) != 0 {
		t.Errorf("result %v, error %v, writes %q", result, err, f.store.writes)
	}
	settled = true
	f.enqueueAfter(request{all: true}, 0)
	if diff := gocmp.Diff([]string{"delete reports/shop"}, f.run()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestTypesThatAreNotServed checks that the log says once that there are no reports, and that they begin with the CRD.
func TestTypesThatAreNotServed(t *testing.T) {
	catalog := served{"reports": "Report"}
	f := newFixture(t, catalog)
	f.record("shop", "web", "no")
	var log []string
	ctx := ctrllog.IntoContext(t.Context(), funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{}))
	for _, r := range []request{{all: true}, {namespace: "shop"}, {all: true}} {
		if result, err := f.Reconcile(ctx, r); err != nil || !result.IsZero() {
			t.Errorf("%v: result %v, error %v", r, result, err)
		}
	}
	if len(log) != 1 || !strings.Contains(log[0], "install the CRD") || !strings.Contains(log[0], "clusterreports") || len(f.store.writes) > 0 {
		t.Errorf("log %q, writes %q", log, f.store.writes)
	}
	catalog["clusterreports"] = "ClusterReport"
	f.enqueueAfter(request{all: true}, 0)
	if diff := gocmp.Diff([]string{"apply reports/shop"}, f.run()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestRefusedWrites checks that a write that fails is an error that says what to do, so that it is tried again, and that a
// namespace that is being deleted needs no report.
func TestRefusedWrites(t *testing.T) {
	reports := schema.GroupResource{Group: "openreports.io", Resource: "reports"}
	terminating := apierrors.NewForbidden(reports, "berth", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"Forbidden":   {apierrors.NewForbidden(reports, "berth", errors.New("no")), "grant the manager list, create, patch and delete on reports"},
		"OtherCRD":    {apierrors.NewInvalid(schema.GroupKind{}, "berth", nil), "check that the installed CRD of the reports is that of openreports.io/v1alpha1"},
		"Unavailable": {apierrors.NewServiceUnavailable("not now"), "writing reports.openreports.io shop/berth: not now"},
		"Terminating": {terminating, ""},
		"NotFound":    {apierrors.NewNotFound(reports, "berth"), ""},
	} {
		f := newFixture(t, all)
		f.record("shop", "web", "no")
		if _, err := f.Reconcile(t.Context(), request{all: true}); err != nil {
			t.Fatal(err)
		}
		f.store.err = test.err
		_, err := f.Reconcile(t.Context(), request{namespace: "shop"})
		if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		f.store.err = nil
		f.enqueueAfter(request{namespace: "shop"}, 0)
		if diff := gocmp.Diff([]string{"apply reports/shop"}, f.run()); diff != "" {
			t.Errorf("%s: writes of the next try (-want +got):\n%s", name, diff)
		}
	}
}
