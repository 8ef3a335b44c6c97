package placementpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/webhooks/placementpolicy"
)

// catalog serves pods and two kinds of events, and carts once it was refreshed.
type catalog struct {
	refreshed  int
	refreshErr error
}

func (c *catalog) ByPlural(plural string) []policy.Resource {
	of := func(group string) policy.Resource {
		return policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}}
	}
	switch {
	case plural == "pods" || plural == "carts" && c.refreshed > 0:
		return []policy.Resource{of("")}
	case plural == "events":
		return []policy.Resource{of(""), of("events.k8s.io")}
	}
	return nil
}

func (*catalog) Exact(schema.GroupVersionResource) (policy.Resource, bool) {
	return policy.Resource{}, false
}

// Inventories are those that Berth knows.
func (*catalog) Inventories() *replication.Inventories { return replication.Known() }

func (c *catalog) Refresh(context.Context) error {
	c.refreshed++
	return c.refreshErr
}

// allows checks for predicates of some names.
func allows(names ...string) checker { return names }

type checker []string

func (c checker) Check(m *policy.Module) error { return m.CheckPredicates(c) }

// secrets are those of the operator's namespace, by name and key.
type secrets map[string]map[string][]byte

func (s secrets) Secret(_ context.Context, name string) (map[string][]byte, error) {
	if name == "foreign" {
		return nil, errors.New("the Secret berth-system/foreign is of another type")
	}
	data, ok := s[name]
	if !ok {
		return nil, fmt.Errorf("reading: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name))
	}
	return data, nil
}

func newPolicy(rego string) *placementv1.PlacementPolicy {
	return &placementv1.PlacementPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1},
		Spec: placementv1.PlacementPolicySpec{Rego: rego, Match: placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
			APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
		}}}},
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		rego    string
		change  func(*placementv1.PlacementPolicy)
		want    []string
		warning string
	}{
		"Sound":     {rego: "package p\nlabels := {\"a\": data.kubernetes.pods.x.y.z}"},
		"V0":        {rego: "package p\nlabels = {\"a\": \"b\"} { true }", change: func(p *placementv1.PlacementPolicy) { p.Spec.RegoVersion = placementv1.RegoV0 }},
		"Mistakes":  {rego: "package p\nlabels := {\"a\": x}\nannotations := {\"a\": y}", want: []string{"spec.rego: Invalid value: p.rego:2:17: rego_unsafe_var_error: var x is unsafe", "spec.rego: Invalid value: p.rego:3:22: rego_unsafe_var_error: var y is unsafe"}},
		"Forbidden": {rego: "package p\nlabels := {\"a\": http.send({})}", want: []string{"http.send is not allowed in a placement policy"}},
		"Ambiguous": {rego: "package p\nlabels := {\"a\": data.kubernetes.events.x}", want: []string{`data.resources["events.k8s.io/v1"].events or data.resources["v1"].events`}},
		"Match": {
			rego: "package p\nlabels := {\"a\": x}", change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ResourceRules[0].APIGroups = []string{"placement.berth.dev"}
			},
			want: []string{`spec.match.resourceRules[0].apiGroups: Forbidden`, "rego_unsafe_var_error"},
		},
		"NotServed":     {rego: "package p\nlabels := {\"a\": data.kubernetes.things.x}", warning: "the policy reads data.kubernetes.things, which the API server does not serve"},
		"JustInstalled": {rego: "package p\nlabels := {\"a\": data.kubernetes.carts.x}"},
		"Predicates": {
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Predicates = &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesNodes, Names: []string{"TaintToleration"}}
			},
		},
		"PredicateNotAllowed": {
			rego: "package p\nerrors contains \"no\" if not k8s.feasible(input, \"*\").a.feasible", change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Predicates = &placementv1.Predicates{Names: []string{"TaintToleration", "VolumeZone"}}
			},
			want: []string{`spec.predicates.names[1]: Invalid value: berth_predicate_error: "VolumeZone" is none of the predicates that the manager allows, which are NodeAffinity, TaintToleration`},
		},
		"Nothing": {rego: "package p\nx := 1", warning: "the policy decides nothing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPolicy(tc.rego)
			if tc.change != nil {
				tc.change(p)
			}
			before := p.DeepCopy()
			v := &placementpolicy.Validator{Catalog: &catalog{}, Checker: allows("NodeAffinity", "TaintToleration")}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if (err != nil) != (len(tc.want) > 0) || (err != nil && !apierrors.IsInvalid(err)) {
				t.Fatalf("error %v", err)
			}
			for _, part := range tc.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v, want it to say %q", err, part)
				}
			}
			if joined := strings.Join(warnings, "; "); (tc.warning == "") != (joined == "") || !strings.Contains(joined, tc.warning) {
				t.Errorf("warnings %q, want %q", warnings, tc.warning)
			}
			if before.Spec.Mode != p.Spec.Mode {
				t.Error("validation changes the policy")
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	v := &placementpolicy.Validator{Catalog: &catalog{}, Checker: allows("NodeAffinity", "TaintToleration")}
	broken := newPolicy("package")
	if _, err := v.ValidateUpdate(t.Context(), broken, broken); err == nil {
		t.Error("a broken policy is taken")
	}
	leaving := broken.DeepCopy()
	leaving.DeletionTimestamp = new(metav1.Now())
	if _, err := v.ValidateUpdate(t.Context(), broken, leaving); err != nil {
		t.Errorf("a finalizer can't let go of a broken policy: %v", err)
	}
	if _, err := v.ValidateDelete(t.Context(), broken); err != nil {
		t.Error(err)
	}
}

func TestCatalogIsDown(t *testing.T) {
	v := &placementpolicy.Validator{Catalog: &catalog{refreshErr: errors.New("down")}, Checker: allows()}
	if _, err := v.ValidateCreate(t.Context(), newPolicy("package p\nlabels := {\"a\": data.kubernetes.things.x}")); err == nil || apierrors.IsInvalid(err) {
		t.Errorf("error %v", err)
	}
}

// A Secret may come after the policy that names it; who forgets it is told how to make it.
func TestSecretsAreWarnedOf(t *testing.T) {
	token := func(name, key string) *placementv1.Remote {
		return &placementv1.Remote{TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: name}, Key: key}}
	}
	tests := map[string]struct {
		remote *placementv1.Remote
		want   []string
	}{
		"NoneNamed": {remote: &placementv1.Remote{}},
		"AllThere":  {remote: token("opa", "")},
		"OtherKey":  {token("opa", "password"), []string{"spec.remote.tokenSecretRef: the Secret berth-system/opa has nothing at the key password"}},
		"Unusable":  {token("foreign", ""), []string{"spec.remote.tokenSecretRef: the Secret berth-system/foreign is of another type"}},
		"NotThere":  {token("none", "t"), []string{"spec.remote.tokenSecretRef: the Secret berth-system/none is not there: kubectl --namespace berth-system create secret generic none --from-file=t=FILE"}},
		"NoIdentity": {
			&placementv1.Remote{CASecretRef: &placementv1.CASecretReference{SecretReference: placementv1.SecretReference{Name: "none"}}, ClientCertificateSecretRef: &placementv1.SecretReference{Name: "client"}},
			[]string{
				"spec.remote.caSecretRef: the Secret berth-system/none is not there: kubectl --namespace berth-system create secret generic none --from-file=ca.crt=FILE",
				"spec.remote.clientCertificateSecretRef: the Secret berth-system/client is not there: kubectl --namespace berth-system create secret tls client --cert=FILE --key=FILE",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v := &placementpolicy.Validator{
				Catalog: &catalog{}, Checker: allows(), Namespace: "berth-system", Secrets: secrets{"opa": {"token": []byte("t")}},
			}
			p := newPolicy("")
			p.Spec.Remote = tc.remote
			p.Spec.Remote.URL, p.Spec.Remote.Undefined = "https://opa.example/v1/data/p", placementv1.UndefinedError
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// A mistake in a module has its field and its place.
func TestModulesAreLocated(t *testing.T) {
	v := &placementpolicy.Validator{Catalog: &catalog{}, Checker: allows()}
	p := newPolicy("")
	p.Spec.Remote = &placementv1.Remote{URL: "https://opa.example/v1/data/p", Modules: []placementv1.RemoteModule{{Name: "main", Rego: "package p\n\nx := {"}}}
	_, err := v.ValidateCreate(t.Context(), p)
	if want := "spec.remote.modules[0].rego: Invalid value: main.rego:3:6: rego_parse_error"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to say %q", err, want)
	}
}

// Who leaves out what an answer without a result means is told what that lets pass.
func TestUndefinedIsWarnedOf(t *testing.T) {
	tests := map[string]struct {
		undefined placementv1.UndefinedResult
		failure   placementv1.FailurePolicy
		want      bool
	}{
		"LeftOut":         {want: true},
		"NoOpinion":       {undefined: placementv1.UndefinedNoOpinion},
		"Error":           {undefined: placementv1.UndefinedError},
		"FailuresIgnored": {failure: placementv1.FailurePolicyIgnore},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v := &placementpolicy.Validator{Catalog: &catalog{}, Checker: allows(), Secrets: secrets{}}
			p := newPolicy("")
			p.Spec.Remote, p.Spec.FailurePolicy = &placementv1.Remote{URL: "https://opa.example/v1/data/p", Undefined: tc.undefined}, tc.failure
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil || (len(warnings) == 1) != tc.want || tc.want && !strings.Contains(warnings[0], "spec.remote.undefined") {
				t.Errorf("warnings %q, %v", warnings, err)
			}
		})
	}
}
