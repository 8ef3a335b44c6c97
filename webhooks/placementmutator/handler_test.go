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

package placementmutator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/webhooks/placementmutator"
)

// answer is a fake evaluator with a constant decision.
type answer struct {
	placement.Decision
	err error
}

func (a answer) Evaluate(ctx context.Context, _ map[string]any) (placement.Decision, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return placement.Decision{}, errors.New("no deadline")
	}
	return a.Decision, a.err
}

func (answer) Revision() uint64 { return 1 }

func (answer) Input() *projection.FieldSet { return projection.AllFields() }

type inForce []*placement.Policy

func (p inForce) Begin() (index *match.Index[*placement.Policy], end func()) {
	return placement.NewIndex(p...), func() {}
}

type namespaces struct{ err error }

func (n namespaces) Labels(context.Context, string) (map[string]string, error) { return nil, n.err }

// notes is an Events recorder that stores reasons and notes.
type notes struct{ lines []string }

func (n *notes) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	n.lines = append(n.lines, reason+": "+fmt.Sprintf(note, args...))
}

func policyOf(t testing.TB, name string, mode placementv1.Mode, failure placementv1.FailurePolicy, a answer) *placement.Policy {
	t.Helper()
	m, errs := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
		APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
	}}}, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return &placement.Policy{Name: name, Generation: 7, Mode: mode, FailurePolicy: failure, Remediation: placementv1.RemediationAutomatic, Matcher: m, Evaluator: a}
}

type fixture struct {
	*placementmutator.Handler
	notes *notes
}

func newFixture(t testing.TB, all ...*placement.Policy) fixture {
	t.Helper()
	keyring, err := placement.NewKeyring(make([]byte, placement.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	return fixture{notes: n, Handler: &placementmutator.Handler{
		Decider: &placement.Decider{Policies: inForce(all), Namespaces: namespaces{}, Keyring: keyring, OwnNamespace: "berth-system"},
		Events:  events.New(n), Metrics: m, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0)),
		FailurePolicy: placementv1.FailurePolicyFail,
		Remediation:   func(*admissionv1.AdmissionRequest) (bool, func([]*placement.Verdict) bool) { return false, nil },
	}}
}

func request(object string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "shop", Name: "web", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)},
	}}
}

const deployment = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "labels": {"zone": "old"}}}`

var (
	labels   = answer{Decision: placement.Decision{Labels: map[string]string{"zone": "eu"}, Warnings: []string{"mind the gap"}}}
	ruled    = answer{Decision: placement.Decision{Rule: "many", Errors: []string{"too many", "rule many: 0/2 clusters"}}}
	denies   = answer{Decision: placement.Decision{Labels: map[string]string{"zone": "eu"}, Errors: []string{"not here", "nor there"}}}
	fails    = answer{err: errors.New("oh")}
	lacks    = answer{err: &engine.NotReplicatedError{Data: "nodes"}}
	wrong    = answer{err: &placement.ContractError{Rule: "labels", Message: "no"}}
	deciding = answer{}
)

// changing is an evaluator that fails after a change of the policies.
type changing struct {
	answer
	change func()
}

func (c changing) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	c.change()
	return placement.Decision{}, c.err
}

// TestDecidesAgain checks that a request for which a version fails is decided again if the version is no longer in force.
func TestDecidesAgain(t *testing.T) {
	const enforce, fail = placementv1.ModeEnforce, placementv1.FailurePolicyFail
	set := func(r *placement.Registry, a answer) {
		r.Set("p", &placement.PolicyState{Policy: policyOf(t, "p", enforce, fail, a)})
	}
	tests := map[string]struct {
		change           func(*placement.Registry)
		allowed, patched bool
	}{
		"Changed": {func(r *placement.Registry) { set(r, labels) }, true, true},
		"Removed": {func(r *placement.Registry) { r.Remove("p") }, true, false},
		"ChangedTwice": {func(r *placement.Registry) {
			next := policyOf(t, "p", enforce, fail, answer{})
			next.Evaluator = changing{fails, func() { set(r, labels) }}
			r.Set("p", &placement.PolicyState{Policy: next})
		}, true, true},
		"FailsAgain": {func(r *placement.Registry) { set(r, fails) }, false, false},
		"NotChanged": {func(*placement.Registry) {}, false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h, registry := newFixture(t), placement.NewRegistry()
			h.Decider.Policies = registry
			h.InForce = func(p *placement.Policy) bool { return registry.Get(p.Name).Decides(p) }
			p := policyOf(t, "p", enforce, fail, answer{})
			calls := 0
			p.Evaluator = changing{fails, func() {
				calls++
				tc.change(registry)
			}}
			registry.Set("p", &placement.PolicyState{Policy: p})
			got := h.Handle(t.Context(), request(deployment))
			if got.Allowed != tc.allowed || (len(got.Patches) > 0) != tc.patched || calls != 1 {
				t.Errorf("allowed: %v, patches: %v, %d calls; %v", got.Allowed, got.Patches, calls, got.Result)
			}
		})
	}
}

// recovering returns an evaluator that gives the first answer once, and the second one from then on.
func recovering(first, second answer) placement.Evaluator {
	return &recoveringEvaluator{second, first, 0}
}

type recoveringEvaluator struct {
	answer
	first answer
	calls int
}

func (e *recoveringEvaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	if e.calls++; e.calls == 1 {
		return e.first.Evaluate(ctx, input)
	}
	return e.answer.Evaluate(ctx, input)
}

// TestAwaitsTheNextVersion checks that a request waits for the version that replaces one whose remote engine lacks something.
func TestAwaitsTheNextVersion(t *testing.T) {
	const enforce, fail = placementv1.ModeEnforce, placementv1.FailurePolicyFail
	incomplete := answer{err: &engine.RemoteError{Fault: engine.FaultIncomplete, Err: errors.New("no nodes")}}
	late := answer{err: &engine.RemoteError{Fault: engine.FaultTimeout, Err: errors.New("no nodes")}}
	for name, tc := range map[string]struct {
		answer  any
		mode    placementv1.Mode
		failure placementv1.FailurePolicy
		// confirmed has the answer of the next version that each call of Confirm brings into force. awaited is that of the version that waits and
		// comes into force after a second, and never that it does not.
		confirmed []answer
		awaited   *answer
		never     bool
		calls     int
		allowed   bool
		took      time.Duration
	}{
		"Waits":         {incomplete, enforce, fail, nil, &labels, false, 0, true, time.Second},
		"NeverComes":    {incomplete, enforce, fail, nil, &labels, true, 0, false, 3 * time.Second},
		"NotReceived":   {incomplete, enforce, fail, []answer{labels}, nil, false, 1, true, 100 * time.Millisecond},
		"TwoChanges":    {incomplete, enforce, fail, []answer{incomplete, labels}, nil, false, 2, true, 200 * time.Millisecond},
		"NothingNewer":  {incomplete, enforce, fail, nil, nil, false, 1, false, 200 * time.Millisecond},
		"CompleteAgain": {recovering(incomplete, labels), enforce, fail, nil, nil, false, 1, true, 200 * time.Millisecond},
		"AnotherFault":  {late, enforce, fail, nil, nil, false, 0, false, 0},
		"DeniesNothing": {incomplete, enforce, placementv1.FailurePolicyIgnore, nil, nil, false, 0, true, 0},
		"IsNotEnforced": {incomplete, placementv1.ModeWarn, fail, nil, nil, false, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, registry := newFixture(t), placement.NewRegistry()
				set := func(a any) {
					p := policyOf(t, "p", tc.mode, tc.failure, answer{})
					p.Evaluator = a.(placement.Evaluator)
					registry.Set("p", &placement.PolicyState{Policy: p})
				}
				h.Decider.Policies = registry
				h.InForce = func(p *placement.Policy) bool { return registry.Get(p.Name).Decides(p) }
				h.Waits = func(*placement.Policy) bool { return tc.awaited != nil }
				calls := 0
				h.Confirm = func(context.Context) error {
					if calls++; calls <= len(tc.confirmed) {
						set(tc.confirmed[calls-1])
					}
					return errors.New("the API server does not answer")
				}
				set(tc.answer)
				if tc.awaited != nil && !tc.never {
					time.AfterFunc(time.Second-time.Millisecond, func() { set(*tc.awaited) })
				}
				start := time.Now()
				got := h.Handle(t.Context(), request(deployment))
				if took := time.Since(start); got.Allowed != tc.allowed || calls != tc.calls || took != tc.took {
					t.Errorf("allowed: %v, %d calls, took %v; %v", got.Allowed, calls, took, got.Result)
				}
				if !got.Allowed && !strings.Contains(got.Result.Message, "no nodes") {
					t.Errorf("the reason is lost: %s", got.Result.Message)
				}
			})
		})
	}
}

func TestHandle(t *testing.T) {
	const (
		enforce, warn, dry = placementv1.ModeEnforce, placementv1.ModeWarn, placementv1.ModeDryRun
		fail, ignore       = placementv1.FailurePolicyFail, placementv1.FailurePolicyIgnore
	)
	type expectation struct {
		Allowed bool
		Patched bool
		Code    int32
		Message string
		Warned  []string
		Would   string
		Events  []string
	}
	tests := map[string]struct {
		policies []*placement.Policy
		want     expectation
	}{
		"NoPolicy":  {want: expectation{Allowed: true}},
		"NoOpinion": {policies: []*placement.Policy{policyOf(t, "p", enforce, fail, deciding)}, want: expectation{Allowed: true}},
		"Patches":   {policies: []*placement.Policy{policyOf(t, "p", enforce, fail, labels)}, want: expectation{Allowed: true, Patched: true, Warned: []string{"mind the gap"}}},
		"Denies":    {policies: []*placement.Policy{policyOf(t, "p", enforce, fail, denies)}, want: expectation{Code: 403, Message: `PlacementPolicy "p": not here; PlacementPolicy "p": nor there`, Events: []string{`PlacementDenied: PlacementPolicy "p": not here; PlacementPolicy "p": nor there`}}},
		"DeniesByRule": {policies: []*placement.Policy{policyOf(t, "p", enforce, fail, ruled)}, want: expectation{
			Code: 403, Message: `PlacementPolicy "p": rule many: too many; PlacementPolicy "p": rule many: 0/2 clusters`,
			Events: []string{`PlacementDenied: PlacementPolicy "p": rule many: too many; PlacementPolicy "p": rule many: 0/2 clusters`},
		}},
		"DryRunOfRule": {policies: []*placement.Policy{policyOf(t, "p", dry, fail, ruled)}, want: expectation{
			Allowed: true, Would: `PlacementPolicy "p" (mode DryRun) would deny: rule many: too many; PlacementPolicy "p" (mode DryRun) would deny: rule many: 0/2 clusters`,
		}},
		"DeniesOfTwo":  {policies: []*placement.Policy{policyOf(t, "q", enforce, fail, labels), policyOf(t, "p", enforce, fail, denies)}, want: expectation{Code: 403, Message: `PlacementPolicy "p": not here; PlacementPolicy "p": nor there`, Warned: []string{"mind the gap"}, Events: []string{`PlacementDenied: PlacementPolicy "p": not here; PlacementPolicy "p": nor there`}}},
		"Fails":        {policies: []*placement.Policy{policyOf(t, "p", enforce, fail, fails)}, want: expectation{Code: 500, Message: `PlacementPolicy "p" can't decide: oh`, Events: []string{`PlacementEvaluationFailed: PlacementPolicy "p" can't decide: oh`}}},
		"FailsForGood": {policies: []*placement.Policy{policyOf(t, "p", enforce, fail, wrong)}, want: expectation{Code: 422, Message: `PlacementPolicy "p" can't decide: rule labels: no`, Events: []string{`PlacementEvaluationFailed: PlacementPolicy "p" can't decide: rule labels: no`}}},
		"FailsForGoodAndForNow": {
			policies: []*placement.Policy{policyOf(t, "p", enforce, fail, wrong), policyOf(t, "q", enforce, fail, fails)},
			want: expectation{
				Code: 500, Message: `PlacementPolicy "p" can't decide: rule labels: no; PlacementPolicy "q" can't decide: oh`,
				Events: []string{`PlacementEvaluationFailed: PlacementPolicy "p" can't decide: rule labels: no; PlacementPolicy "q" can't decide: oh`},
			},
		},
		"FailsForGoodAndIgnored": {
			policies: []*placement.Policy{policyOf(t, "p", enforce, fail, wrong), policyOf(t, "q", enforce, ignore, fails)},
			want: expectation{
				Code: 422, Message: `PlacementPolicy "p" can't decide: rule labels: no`, Warned: []string{`PlacementPolicy "q" can't decide: oh; ignored, as its failurePolicy says`},
				Events: []string{`PlacementEvaluationFailed: PlacementPolicy "p" can't decide: rule labels: no`},
			},
		},
		"FailsIgnored": {
			policies: []*placement.Policy{policyOf(t, "p", enforce, ignore, fails), policyOf(t, "q", enforce, fail, labels)},
			want: expectation{
				Allowed: true, Patched: true, Warned: []string{`PlacementPolicy "p" can't decide: oh; ignored, as its failurePolicy says`, "mind the gap"},
				Events: []string{`PlacementEvaluationFailed: PlacementPolicy "p" can't decide: oh; ignored, as its failurePolicy says`},
			},
		},
		"FailsIgnoredAndDenies": {
			policies: []*placement.Policy{policyOf(t, "p", enforce, ignore, fails), policyOf(t, "q", enforce, fail, denies)},
			want: expectation{
				Code: 403, Message: `PlacementPolicy "q": not here; PlacementPolicy "q": nor there`,
				Warned: []string{`PlacementPolicy "p" can't decide: oh; ignored, as its failurePolicy says`},
				Events: []string{
					`PlacementDenied: PlacementPolicy "q": not here; PlacementPolicy "q": nor there`,
					`PlacementEvaluationFailed: PlacementPolicy "p" can't decide: oh; ignored, as its failurePolicy says`,
				},
			},
		},
		// Events with the same object and reason are combined, with the note of the first.
		"FailsIgnoredAndFails": {
			policies: []*placement.Policy{policyOf(t, "p", enforce, ignore, fails), policyOf(t, "q", enforce, fail, fails)},
			want: expectation{
				Code: 500, Message: `PlacementPolicy "q" can't decide: oh`,
				Warned: []string{`PlacementPolicy "p" can't decide: oh; ignored, as its failurePolicy says`},
				Events: []string{`PlacementEvaluationFailed: PlacementPolicy "q" can't decide: oh`},
			},
		},
		"LacksData": {policies: []*placement.Policy{policyOf(t, "p", enforce, fail, lacks)}, want: expectation{
			Code: 500, Message: `PlacementPolicy "p" can't decide: the data that it reads is not complete: Berth has no complete copy of nodes yet`,
			Events: []string{`PlacementEvaluationFailed: PlacementPolicy "p" can't decide: the data that it reads is not complete: Berth has no complete copy of nodes yet`},
		}},
		"FailsAndDenies": {
			policies: []*placement.Policy{policyOf(t, "q", enforce, fail, fails), policyOf(t, "p", enforce, fail, denies)},
			want: expectation{
				Code: 500, Message: `PlacementPolicy "q" can't decide: oh; PlacementPolicy "p": not here; PlacementPolicy "p": nor there`,
				Events: []string{`PlacementEvaluationFailed: PlacementPolicy "q" can't decide: oh; PlacementPolicy "p": not here; PlacementPolicy "p": nor there`},
			},
		},
		"Warns": {policies: []*placement.Policy{policyOf(t, "p", warn, fail, labels)}, want: expectation{Allowed: true, Warned: []string{
			`PlacementPolicy "p" (mode Warn) would set label zone to eu (was old)`, "mind the gap",
		}}},
		"WarnsOfDenial": {policies: []*placement.Policy{policyOf(t, "p", warn, fail, denies)}, want: expectation{Allowed: true, Warned: []string{
			`PlacementPolicy "p" (mode Warn) would deny: not here`, `PlacementPolicy "p" (mode Warn) would deny: nor there`,
		}}},
		"WarnsOfFailure":  {policies: []*placement.Policy{policyOf(t, "p", warn, fail, fails)}, want: expectation{Allowed: true, Warned: []string{`PlacementPolicy "p" (mode Warn) can't decide: oh`}}},
		"DryRun":          {policies: []*placement.Policy{policyOf(t, "eu.example", dry, fail, labels)}, want: expectation{Allowed: true, Would: `PlacementPolicy "eu.example" (mode DryRun) would set label zone to eu (was old)`}},
		"DryRunOfDenial":  {policies: []*placement.Policy{policyOf(t, "p", dry, fail, denies)}, want: expectation{Allowed: true, Would: `PlacementPolicy "p" (mode DryRun) would deny: not here; PlacementPolicy "p" (mode DryRun) would deny: nor there`}},
		"DryRunOfFailure": {policies: []*placement.Policy{policyOf(t, "p", dry, fail, fails)}, want: expectation{Allowed: true, Would: `PlacementPolicy "p" (mode DryRun) can't decide: oh`}},
		"DryRunOfNothing": {policies: []*placement.Policy{policyOf(t, "p", dry, fail, deciding)}, want: expectation{Allowed: true}},
		"DryRunBesides": {
			policies: []*placement.Policy{policyOf(t, "p", dry, fail, denies), policyOf(t, "q", enforce, fail, labels)},
			want:     expectation{Allowed: true, Patched: true, Warned: []string{"mind the gap"}, Would: `PlacementPolicy "p" (mode DryRun) would deny: not here; PlacementPolicy "p" (mode DryRun) would deny: nor there`},
		},
	}
	for name, tc := range tests {
		for _, dryRun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_%t", name, dryRun), func(t *testing.T) {
				h := newFixture(t, tc.policies...)
				req := request(deployment)
				req.DryRun = &dryRun
				response := h.Handle(t.Context(), req)
				got := expectation{
					Allowed: response.Allowed, Patched: len(response.Patches) > 0, Warned: response.Warnings, Events: h.notes.lines,
				}
				got.Would = response.AuditAnnotations["would"]
				if response.Result != nil && !response.Allowed {
					got.Code, got.Message = response.Result.Code, response.Result.Message
				}
				want := tc.want
				if dryRun {
					// A dry run must not emit Events.
					want.Events = nil
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				checkAudit(t, response, len(tc.policies))
				if err := response.Complete(req); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// checkAudit checks the audit annotations of a response, except for what a policy would do.
func checkAudit(t *testing.T, response admission.Response, policies int) {
	t.Helper()
	audited := response.AuditAnnotations
	if policies == 0 {
		if len(audited) > 0 {
			t.Errorf("audit annotations %v where nobody decided", audited)
		}
		return
	}
	want := "allowed"
	if !response.Allowed {
		want = map[int32]string{http.StatusForbidden: "denied", http.StatusInternalServerError: "error", http.StatusUnprocessableEntity: "error"}[response.Result.Code]
	}
	if audited["outcome"] != want {
		t.Errorf("audited outcome %q, want %q", audited["outcome"], want)
	}
	if got := len(regexp.MustCompile(`[a-z.]+@7(,|$)`).FindAllString(audited["policies"], -1)); got != policies {
		t.Errorf("audited policies %q, want %d", audited["policies"], policies)
	}
	if !strings.HasPrefix(audited["decision"], "sha256:") {
		t.Errorf("audited decision %q", audited["decision"])
	}
	for key := range audited {
		if problems := validation.IsQualifiedName("fail-0123456789ab.placement.berth.dev/" + key); len(problems) > 0 {
			t.Errorf("audit annotation %q: %v", key, problems)
		}
	}
}

// TestAuditOfReinvocation checks that the webhook returns the same audit annotations when the API server calls it again
// for an object that it has patched. The API server keeps the first annotations and logs a warning if the second ones
// differ.
func TestAuditOfReinvocation(t *testing.T) {
	h := newFixture(t,
		policyOf(t, "p", placementv1.ModeEnforce, placementv1.FailurePolicyFail, labels),
		policyOf(t, "q", placementv1.ModeDryRun, placementv1.FailurePolicyFail, answer{Decision: placement.Decision{Labels: map[string]string{"zone": "us"}}}))
	req := request(deployment)
	first := h.Handle(t.Context(), req)
	if len(first.Patches) == 0 {
		t.Fatal("nothing is patched")
	}
	if err := first.Complete(req); err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(first.Patch)
	if err != nil {
		t.Fatal(err)
	}
	if req.Object.Raw, err = patch.Apply(req.Object.Raw); err != nil {
		t.Fatal(err)
	}
	second := h.Handle(t.Context(), req)
	if len(second.Patches) > 0 {
		t.Errorf("patched again: %v", second.Patches)
	}
	if diff := cmp.Diff(first.AuditAnnotations, second.AuditAnnotations); diff != "" {
		t.Errorf("audit annotations of the second answer (-first +second):\n%s", diff)
	}
}

// TestAuditIsBounded checks that audit annotations stay small enough for audit backends, whatever the number of
// policies.
func TestAuditIsBounded(t *testing.T) {
	var all []*placement.Policy
	for i := range 300 {
		all = append(all, policyOf(t, fmt.Sprintf("policy-with-a-name-%03d", i), placementv1.ModeDryRun, placementv1.FailurePolicyFail,
			answer{Decision: placement.Decision{Errors: []string{strings.Repeat("ü", 1000)}}}))
	}
	for key, value := range newFixture(t, all...).Handle(t.Context(), request(deployment)).AuditAnnotations {
		if len(value) > 4096 || !utf8.ValidString(value) {
			t.Errorf("annotation %s has %d bytes, valid %t", key, len(value), utf8.ValidString(value))
		}
	}
}

func TestHandleUndecidable(t *testing.T) {
	for _, failure := range []placementv1.FailurePolicy{placementv1.FailurePolicyFail, placementv1.FailurePolicyIgnore} {
		t.Run(string(failure), func(t *testing.T) {
			h := newFixture(t, policyOf(t, "p", placementv1.ModeEnforce, failure, labels))
			h.Decider.Namespaces = namespaces{err: errors.New("cache is down")}
			h.FailurePolicy = failure
			response := h.Handle(t.Context(), request(deployment))
			if want := failure == placementv1.FailurePolicyIgnore; response.Allowed != want {
				t.Errorf("allowed = %t, want %t", response.Allowed, want)
			}
			text := response.Result.Message + strings.Join(response.Warnings, "")
			if !strings.Contains(text, "cache is down") {
				t.Errorf("answer does not say why: %q", text)
			}
			if diff := cmp.Diff(map[string]string{"outcome": "error"}, response.AuditAnnotations); diff != "" {
				t.Errorf("audit annotations (-want +got):\n%s", diff)
			}
			if len(h.notes.lines) != 1 {
				t.Errorf("events %q", h.notes.lines)
			}
		})
	}
}

// TestHandleUnread checks that a request whose object was not read is denied, or admitted with a warning, and emits an
// Event.
func TestHandleUnread(t *testing.T) {
	const message = "placement could not be decided: too many: try again"
	h := newFixture(t)
	req := request("")
	response := h.HandleUnread(t.Context(), req, apierrors.NewTooManyRequests("too many: try again", 1))
	if response.Allowed || response.Result.Code != http.StatusTooManyRequests || response.Result.Message != message || response.Result.Details.RetryAfterSeconds != 1 {
		t.Errorf("Fail: %+v", response)
	}
	h.FailurePolicy = placementv1.FailurePolicyIgnore
	response = h.HandleUnread(t.Context(), req, apierrors.NewTooManyRequests("too many: try again", 1))
	if diff := cmp.Diff([]string{message}, response.Warnings); !response.Allowed || diff != "" {
		t.Errorf("Ignore: %+v", response)
	}
	const event = "PlacementEvaluationFailed: a request was "
	if diff := cmp.Diff([]string{event + "denied: " + message, event + "admitted as it was: " + message}, h.notes.lines); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// terminating returns an object that is being deleted, with more fields in the object and in its metadata.
func terminating(more, metadata string) string {
	if metadata != "" {
		metadata = ", " + metadata
	}
	return `{` + more + `, "metadata": {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0` + metadata + `}}`
}

func TestHandleObjects(t *testing.T) {
	tests := map[string]struct {
		object, old string
		allowed     bool
		patched     bool
	}{
		"Garbage":    {object: `{`},
		"OldGarbage": {object: deployment, old: `[`},
		"Sound":      {object: deployment, old: deployment, allowed: true, patched: true},
		// Deletion fields in the request exempt nothing, because server-side apply creates objects with such fields.
		"CreatedTerminating": {object: terminating(`"a": 1`, `"finalizers": ["a"]`), allowed: true, patched: true},
		"SaysTerminating":    {object: terminating(`"a": 1`, ""), old: deployment, allowed: true, patched: true},
		// A policy must not block the deletion of an object that was terminating already.
		"Finalized":          {object: terminating(`"a": 1`, ""), old: terminating(`"a": 1`, `"finalizers": ["a"]`), allowed: true},
		"Disowned":           {object: terminating(`"a": 1`, `"ownerReferences": []`), old: terminating(`"a": 1`, ""), allowed: true},
		"Untouched":          {object: terminating(`"a": 1`, ""), old: terminating(`"a": 1`, ""), allowed: true},
		"MovedByTheServer":   {object: terminating(`"a": 1`, `"resourceVersion": "2", "generation": 2, "managedFields": [{}]`), old: terminating(`"a": 1`, `"resourceVersion": "1"`), allowed: true},
		"SaysNotTerminating": {object: `{"a": 1, "metadata": {"name": "web"}}`, old: terminating(`"a": 1`, ""), allowed: true},
		"Relabeled":          {object: terminating(`"a": 1`, `"labels": {}`), old: terminating(`"a": 1`, ""), allowed: true, patched: true},
		"Changed":            {object: terminating(`"a": 2`, ""), old: terminating(`"a": 1`, ""), allowed: true, patched: true},
		"ChangedDeep":        {object: terminating(`"a": {"b": [{"c": 1}]}`, ""), old: terminating(`"a": {"b": [{"c": 2}]}`, ""), allowed: true, patched: true},
		"Added":              {object: terminating(`"a": 1, "b": 1`, ""), old: terminating(`"a": 1`, ""), allowed: true, patched: true},
		"Removed":            {object: terminating(`"b": 1`, ""), old: terminating(`"a": 1, "b": 1`, ""), allowed: true, patched: true},
		"ChangedTwice":       {object: terminating(`"a": 1, "a": 2`, ""), old: terminating(`"a": 1`, ""), allowed: true, patched: true},
		"AnotherKind":        {object: terminating(`"kind": "B"`, ""), old: terminating(`"kind": "A"`, ""), allowed: true, patched: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, policyOf(t, "p", placementv1.ModeEnforce, placementv1.FailurePolicyFail, labels))
			req := request(tc.object)
			if tc.old != "" {
				req.Operation, req.OldObject.Raw = admissionv1.Update, []byte(tc.old)
			}
			// Some of the requests are decoded completely from the start.
			for range 40 {
				response := h.Handle(t.Context(), req)
				if response.Allowed != tc.allowed || (len(response.Patches) > 0) != tc.patched {
					t.Fatalf("answer %+v", response)
				}
			}
		})
	}
}

// TestHandleRemediation checks that a remediation patch does not apply parts of policies without automatic remediation.
// Neither does a user's request that does not change what the policy reads and writes. Other requests get the whole
// decision.
func TestHandleRemediation(t *testing.T) {
	changed := strings.Replace(deployment, `"zone": "old"`, `"zone": "mine"`, 1)
	tests := map[string]struct {
		remediating bool
		object      string
		patched     bool
	}{
		"Remediation": {remediating: true, object: deployment},
		"SameObject":  {object: deployment},
		"OtherValue":  {object: changed, patched: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := policyOf(t, "p", placementv1.ModeEnforce, placementv1.FailurePolicyFail, labels)
			p.Remediation = placementv1.RemediationManual
			h := newFixture(t, p)
			h.Remediation = func(*admissionv1.AdmissionRequest) (bool, func([]*placement.Verdict) bool) {
				return tc.remediating, nil
			}
			req := request(tc.object)
			req.OldObject.Raw, req.Operation = []byte(deployment), admissionv1.Update
			if response := h.Handle(t.Context(), req); (len(response.Patches) > 0) != tc.patched {
				t.Errorf("patches %v", response.Patches)
			}
		})
	}
}

// FuzzHandle checks that every request gets a response, and that an unreadable request is never admitted.
func FuzzHandle(f *testing.F) {
	f.Add(deployment, deployment)
	f.Add(`{}`, ``)
	f.Add(`null`, `null`)
	f.Add(`{"metadata": {"labels": "x", "annotations": [1]}}`, `{"metadata": 1}`)
	f.Add(`{"metadata": {"annotations": {"placement.berth.dev/requested": "{\"labels\":{\"zone\":{}}}"}}}`, `{}`)
	f.Fuzz(func(t *testing.T, object, old string) {
		h := newFixture(t, policyOf(t, "p", placementv1.ModeEnforce, placementv1.FailurePolicyFail, labels))
		req := request(object)
		req.OldObject.Raw = []byte(old)
		response := h.Handle(t.Context(), req)
		var document map[string]any
		if json.Unmarshal([]byte(object), &document) != nil && response.Allowed {
			t.Fatalf("%q is admitted", object)
		}
	})
}

// BenchmarkHandle measures a request that three policies match, without the evaluation.
func BenchmarkHandle(b *testing.B) {
	var all []*placement.Policy
	for i := range 3 {
		all = append(all, policyOf(b, fmt.Sprintf("policy-%d", i), placementv1.ModeEnforce, placementv1.FailurePolicyFail, labels))
	}
	h := newFixture(b, all...)
	req := request(deployment)
	for b.Loop() {
		h.Handle(b.Context(), req)
	}
}
