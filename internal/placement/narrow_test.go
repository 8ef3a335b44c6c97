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
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

const clustersKey = placementv1.ClustersAnnotation

// with changes a policy and returns it.
func with(p *placement.Policy, change func(*placement.Policy)) *placement.Policy {
	change(p)
	return p
}

func overrides(p *placement.Policy) {
	p.Clusters.DeveloperChoice = placementv1.DeveloperChoiceOverride
}

func ignores(p *placement.Policy) { p.Clusters.DeveloperChoice = placementv1.DeveloperChoiceIgnore }

func keepsPolicy(p *placement.Policy) { p.Clusters.OnEmpty = placementv1.OnEmptyPolicyClusters }

func clears(p *placement.Policy) { p.Clusters.OnEmpty = placementv1.OnEmptyClear }

func warns(p *placement.Policy) { p.Mode = placementv1.ModeWarn }

func manual(p *placement.Policy) { p.Remediation = placementv1.RemediationManual }

// asking returns a Deployment with the requested clusters. It has no such annotation if text is empty.
func asking(text string) *unstructured.Unstructured {
	annotations := map[string]string{}
	if text != "" {
		annotations[clustersKey] = text
	}
	return newObject("web", metadata{"annotations": annotations})
}

// TestOwnClusters verifies which denials are due to the developer's list alone.
func TestOwnClusters(t *testing.T) {
	eu, us, none := []string{"eu"}, []string{"us"}, []string{}
	for name, tc := range map[string]struct {
		asked string
		by    policies
		// own are the names of the policies whose denial is due to the list, and denied those of all that deny.
		own, denied []string
	}{
		"Allowed":                {asked: `["eu"]`, by: policies{allows(t, "p", eu)}},
		"OtherClusters":          {asked: `["us"]`, by: policies{allows(t, "p", eu)}, denied: []string{"p"}, own: []string{"p"}},
		"OtherClustersOfTwo":     {asked: `["us"]`, by: policies{allows(t, "p", eu), allows(t, "q", eu)}, denied: []string{"p", "q"}, own: []string{"p", "q"}},
		"NoList":                 {by: policies{allows(t, "p", none)}, denied: []string{"p"}},
		"NoneIsAllowed":          {asked: `["us"]`, by: policies{allows(t, "p", none)}, denied: []string{"p"}},
		"PoliciesAllowNoneAlike": {asked: `["us"]`, by: policies{allows(t, "p", eu), allows(t, "q", us)}, denied: []string{"p", "q"}},
		"NoListOfClusters":       {asked: `eu`, by: policies{allows(t, "p", eu)}, denied: []string{"p"}, own: []string{"p"}},
		"Overridden":             {asked: `["us"]`, by: policies{with(allows(t, "p", eu), overrides)}},
		"DeniedForAnotherReason": {asked: `["us"]`, by: policies{with(allows(t, "p", eu), denying)}, denied: []string{"p"}},
		"DeniedForBothReasons":   {asked: `["us"]`, by: policies{allows(t, "p", eu), with(allows(t, "q", eu), denying)}, denied: []string{"p", "q"}, own: []string{"p"}},
	} {
		t.Run(name, func(t *testing.T) {
			var own, denied []string
			for _, v := range decide(t, asking(tc.asked), nil, tc.by...).Verdicts {
				if v.OwnClusters {
					own = append(own, v.Policy.Name)
				}
				if len(v.Decision.Errors) > 0 {
					denied = append(denied, v.Policy.Name)
				}
			}
			if diff := cmp.Diff([][]string{tc.own, tc.denied}, [][]string{own, denied}); diff != "" {
				t.Errorf("own and all (-want +got):\n%s", diff)
			}
		})
	}
}

// explaining is an Evaluator that knows why its policy gives no cluster but ap.
type explaining struct{ placement.Evaluator }

func (explaining) WhyNot(ctx context.Context, input map[string]any, clusters []string) map[string]string {
	out := map[string]string{}
	for _, name := range clusters {
		if name != "jp" {
			out[name] = fmt.Sprintf("without %s for %v in %s", name, input["kind"], placement.NamespaceOf(ctx))
		}
	}
	return out
}

// TestDenialsExplain verifies that the denial of an object says why a policy does not give it the clusters that the developer asks
// for, if a client requests it. Remediation evaluates nothing for that.
func TestDenialsExplain(t *testing.T) {
	explains := func(p *placement.Policy) { p.Evaluator = explaining{p.Evaluator} }
	const asks = "annotation placement.berth.dev/clusters asks for "
	for name, tc := range map[string]struct {
		asked    string
		client   bool
		policies policies
		want     []string
	}{
		"One":          {`["us"]`, true, policies{with(allows(t, "a", []string{"ap"}), explains)}, []string{asks + "us (without us for Deployment in default)"}},
		"NoReason":     {`["us","jp"]`, true, policies{with(allows(t, "a", []string{"ap"}), explains)}, []string{asks + "jp, us (without us for Deployment in default)"}},
		"Remediation":  {`["us"]`, false, policies{with(allows(t, "a", []string{"ap"}), explains)}, []string{asks + "us"}},
		"NotExplained": {`["us"]`, true, policies{allows(t, "a", []string{"ap"})}, []string{asks + "us"}},
		"Others": {`["ap","us"]`, true, policies{with(allows(t, "a", []string{"ap"}), explains), allows(t, "b", []string{"eu"})}, []string{
			asks + `ap, us (without us for Deployment in default); PlacementPolicy "b" allows eu`, asks + `ap, us; PlacementPolicy "a" allows ap`,
		}},
		"Many": {`["a1","a2","a3","a4","a5","a6","a7","a8","a9"]`, true, policies{with(allows(t, "a", []string{"ap"}), explains)}, []string{"a8 (without a8 for Deployment in default) and 1 more"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &placement.Decider{Policies: tc.policies, Namespaces: namespaces{}, Keyring: keyring(t, "k")}
			request := placement.Request{Resource: deployments, Namespace: "default", Object: asking(tc.asked)}
			out, err := d.Decide(t.Context(), request)
			if !tc.client {
				request.Old = request.Object
				out, err = d.Remediate(t.Context(), request, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range out.Verdicts {
				if len(v.Decision.Errors) != 1 || !strings.HasSuffix(v.Decision.Errors[0], tc.want[i]) {
					t.Errorf("errors of %s: %q, want %q", v.Policy.Name, v.Decision.Errors, tc.want[i])
				}
			}
		})
	}
}

func TestClustersOfNewObjects(t *testing.T) {
	a, b := []string{"ap", "eu"}, []string{"eu", "us"}
	tests := map[string]struct {
		asked    string
		policies func(t *testing.T) policies
		want     string
		errors   map[string]string
	}{
		"OnePolicy":  {policies: func(t *testing.T) policies { return policies{allows(t, "a", a)} }, want: `["ap","eu"]`},
		"TwoCompose": {policies: func(t *testing.T) policies { return policies{allows(t, "a", a), allows(t, "b", b)} }, want: `["eu"]`},
		"PriorityDoesNotMatter": {policies: func(t *testing.T) policies {
			return policies{allows(t, "a", a), with(allows(t, "b", b), func(p *placement.Policy) { p.Priority = 9 })}
		}, want: `["eu"]`},
		"OneSaysNothing":    {policies: func(t *testing.T) policies { return policies{allows(t, "a", a), allows(t, "b", nil)} }, want: `["ap","eu"]`},
		"DeveloperNarrows":  {asked: `["us", "eu"]`, policies: func(t *testing.T) policies { return policies{allows(t, "a", a)} }, want: `["eu"]`},
		"DeveloperIsInside": {asked: `["us", "eu"]`, policies: func(t *testing.T) policies { return policies{allows(t, "b", b)} }, want: `["us", "eu"]`},
		"Override":          {asked: `["us"]`, policies: func(t *testing.T) policies { return policies{with(allows(t, "a", a), overrides)} }, want: `["ap","eu"]`},
		"OverrideOfOne": {asked: `["us"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", b), overrides), allows(t, "b", b)}
		}, want: `["us"]`},
		"OverrideOfAll": {asked: `["us"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", a), overrides), with(allows(t, "b", b), overrides)}
		}, want: `["eu"]`},
		"OverrideOfNoList": {asked: `eu`, policies: func(t *testing.T) policies { return policies{with(allows(t, "a", a), overrides)} }, want: `["ap","eu"]`},
		"NoList": {asked: `eu,us`, policies: func(t *testing.T) policies { return policies{allows(t, "a", a)} }, want: `eu,us`, errors: map[string]string{
			"a": `annotation placement.berth.dev/clusters is "eu,us", which is not a list of clusters; write a JSON array of their names`,
		}},
		"Null": {asked: `null`, policies: func(t *testing.T) policies { return policies{allows(t, "a", a)} }, want: `null`, errors: map[string]string{
			"a": `is "null", which is not a list`,
		}},
		"NothingLeft": {policies: func(t *testing.T) policies { return policies{allows(t, "a", []string{"ap"}), allows(t, "b", b)} }, errors: map[string]string{
			"a": `no cluster is left: this policy allows ap; PlacementPolicy "b" allows eu, us`,
			"b": `no cluster is left: this policy allows eu, us; PlacementPolicy "a" allows ap`,
		}},
		"NothingLeftForTheDeveloper": {asked: `["us"]`, policies: func(t *testing.T) policies { return policies{allows(t, "a", a)} }, want: `["us"]`, errors: map[string]string{
			"a": `no cluster is left: this policy allows ap, eu; annotation placement.berth.dev/clusters asks for us`,
		}},
		"PolicyAllowsNone": {policies: func(t *testing.T) policies { return policies{allows(t, "a", []string{})} }, errors: map[string]string{
			"a": `no cluster is left: this policy allows none`,
		}},
		"Clear": {asked: `["us"]`, policies: func(t *testing.T) policies { return policies{with(allows(t, "a", a), clears)} }, want: `[]`},
		"ClearOfOne": {asked: `["us"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", a), clears), allows(t, "b", b)}
		}, want: `["us"]`, errors: map[string]string{
			"a": `this policy allows ap, eu; annotation placement.berth.dev/clusters asks for us; PlacementPolicy "b" allows eu, us`,
			"b": `this policy allows eu, us; annotation placement.berth.dev/clusters asks for us; PlacementPolicy "a" allows ap, eu`,
		}},
		"IgnoreOfOne": {asked: `["us"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", a), ignores), allows(t, "b", b)}
		}, want: `["eu"]`},
		"PolicyClusters": {asked: `["us"]`, policies: func(t *testing.T) policies { return policies{with(allows(t, "a", a), keepsPolicy)} }, want: `["ap","eu"]`},
		"PolicyClustersWithSomeLeft": {asked: `["us","eu"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", a), keepsPolicy)}
		}, want: `["eu"]`},
		"PolicyClustersOfTwo": {asked: `["us"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", a), keepsPolicy), with(allows(t, "b", []string{"eu"}), keepsPolicy)}
		}, want: `["eu"]`},
		"PolicyClustersAndClear": {asked: `["us"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", a), keepsPolicy), with(allows(t, "b", []string{"eu"}), clears)}
		}, want: `[]`},
		"PolicyClustersAndDeny": {asked: `["us"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", []string{"eu"}), keepsPolicy), allows(t, "b", b)}
		}, want: `["us"]`, errors: map[string]string{"a": "no cluster is left", "b": "no cluster is left"}},
		"PolicyClustersOfNone": {asked: `["us"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", []string{}), keepsPolicy)}
		}, want: `["us"]`, errors: map[string]string{"a": "no cluster is left: this policy allows none"}},
		"WarnDoesNotNarrow": {asked: `["us"]`, policies: func(t *testing.T) policies {
			return policies{with(allows(t, "a", a), warns), allows(t, "b", b)}
		}, want: `["us"]`, errors: map[string]string{"a": `no cluster is left: this policy allows ap, eu;`}},
		"WarnAlone": {policies: func(t *testing.T) policies { return policies{with(allows(t, "a", a), warns)} }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out := decide(t, asking(tc.asked), nil, tc.policies(t)...)
			if got := out.Object.GetAnnotations()[clustersKey]; got != tc.want {
				t.Errorf("annotation %q, want %q", got, tc.want)
			}
			for _, v := range out.Verdicts {
				want, wanted := tc.errors[v.Policy.Name]
				if got := strings.Join(v.Decision.Errors, "|"); !strings.Contains(got, want) || (got != "") != wanted {
					t.Errorf("errors of %s: %q, want %q", v.Policy.Name, got, want)
				}
				if len(v.Conflicts) > 0 {
					t.Errorf("conflicts %v", v.Conflicts)
				}
			}
		})
	}
}

// TestClustersOfExistingObjects checks that an object's clusters follow the developer and the policies, and return to
// the requested ones.
func TestClustersOfExistingObjects(t *testing.T) {
	steps := []struct {
		name string
		// ask is the developer's new list. It is empty for an update that does not change the list.
		ask  string
		by   policies
		want string
	}{
		{"Placed", `["us","eu","ap"]`, policies{allows(t, "a", []string{"eu", "us"})}, `["eu","us"]`},
		{"AnotherComes", "", policies{allows(t, "a", []string{"eu", "us"}), allows(t, "b", []string{"ap", "eu"})}, `["eu"]`},
		{"TheDeveloperChanges", `["ap","eu"]`, policies{allows(t, "a", []string{"eu", "us"}), allows(t, "b", []string{"ap", "eu"})}, `["eu"]`},
		{"OneGoes", "", policies{allows(t, "b", []string{"ap", "eu"})}, `["ap","eu"]`},
		{"TheOtherNarrows", "", policies{allows(t, "b", []string{"ap"})}, `["ap"]`},
		{"TheLastIsDeleted", "", policies{allows(t, "c", nil)}, `["ap"]`},
		{"TheLastLetsGo", "", policies{allows(t, "b", nil)}, `["ap","eu"]`},
	}
	stored := asking("")
	for _, step := range steps {
		next := stored.DeepCopy()
		if step.ask != "" {
			annotations := next.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[clustersKey] = step.ask
			next.SetAnnotations(annotations)
		}
		out := decide(t, next, stored, step.by...)
		if got := out.Object.GetAnnotations()[clustersKey]; got != step.want {
			t.Errorf("%s: annotation %q, want %q", step.name, got, step.want)
		}
		stored = out.Object
		if again := decide(t, stored, stored, step.by...); !cmp.Equal(stored.Object, again.Object.Object) {
			t.Errorf("%s: deciding again changes the object:\n%s", step.name, cmp.Diff(stored.Object, again.Object.Object))
		}
	}
}

// remediated decides an existing object as remediation does.
func remediated(t *testing.T, obj *unstructured.Unstructured, all ...*placement.Policy) *placement.Outcome {
	t.Helper()
	d := &placement.Decider{Policies: policies(all), Namespaces: namespaces{}, Keyring: keyring(t, "k"), OwnNamespace: "berth-system"}
	decide := func(obj, old *unstructured.Unstructured) *placement.Outcome {
		out, err := d.Remediate(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: obj, Old: old}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := decide(obj, obj)
	if out.Object != nil {
		// The API server calls the webhook once more if another one changed the object.
		if diff := cmp.Diff(out.Object, decide(out.Object, obj).Object); diff != "" {
			t.Errorf("another call of the webhook in the same request changes the object (-first +second):\n%s", diff)
		}
	}
	return out
}

// TestClustersThatAreHeld checks that the last list of a policy counts if the policy is not remediated or cannot
// decide.
func TestClustersThatAreHeld(t *testing.T) {
	placed := func(t *testing.T) *unstructured.Unstructured {
		return decide(t, asking(`["ap","eu","us"]`), nil, allows(t, "a", []string{"eu", "us"}), allows(t, "b", []string{"ap", "eu"})).Object
	}
	t.Run("Manual", func(t *testing.T) {
		held := with(allows(t, "a", []string{"ap", "us"}), manual)
		out := remediated(t, placed(t), held, allows(t, "b", []string{"ap", "eu", "us"}))
		if got := out.Object.GetAnnotations()[clustersKey]; got != `["eu","us"]` {
			t.Errorf("annotation %q", got)
		}
		want := [][]placement.Change{
			{{Field: "annotations", Key: clustersKey, From: new(`["eu"]`), To: new(`["ap","us"]`)}},
			{{Field: "annotations", Key: clustersKey, From: new(`["eu"]`), To: new(`["eu","us"]`)}},
		}
		if diff := cmp.Diff(want, [][]placement.Change{out.Verdicts[0].Changes, out.Verdicts[1].Changes}); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
	t.Run("ManualBesideAnotherThatBeginsToDecide", func(t *testing.T) {
		stored := decide(t, asking(""), nil, allows(t, "b", []string{"eu", "us"})).Object
		out := remediated(t, stored, allows(t, "a", []string{"ap", "eu", "us"}), with(allows(t, "b", []string{"ap"}), manual))
		if got := out.Object.GetAnnotations()[clustersKey]; got != `["eu","us"]` {
			t.Errorf("annotation %q", got)
		}
	})
	t.Run("ManualWithNothingLeft", func(t *testing.T) {
		out := remediated(t, placed(t), with(allows(t, "a", []string{"us"}), manual), allows(t, "b", []string{"ap", "eu"}))
		if got := out.Object.GetAnnotations()[clustersKey]; got != `["eu"]` {
			t.Errorf("annotation %q", got)
		}
		if c := out.Verdicts[0].Changes; len(c) != 1 || c[0].Immutable != "no cluster is left" || len(out.Verdicts[0].Decision.Errors)+len(out.Verdicts[1].Decision.Errors) > 0 {
			t.Errorf("changes %v, errors %v and %v", c, out.Verdicts[0].Decision.Errors, out.Verdicts[1].Decision.Errors)
		}
	})
	t.Run("Failing", func(t *testing.T) {
		failing := with(allows(t, "a", nil), func(p *placement.Policy) {
			p.FailurePolicy, p.Evaluator = placementv1.FailurePolicyIgnore, &fakeEvaluator{err: errFake}
		})
		stored := placed(t)
		if got := decide(t, stored, stored, failing, allows(t, "b", []string{"ap", "eu", "us"})).Object.GetAnnotations()[clustersKey]; got != `["eu","us"]` {
			t.Errorf("annotation %q", got)
		}
	})
}

// TestNoClusterIsLeftOfAnExistingObject checks that an object stays as it is if no cluster is left, and that there is
// no patch.
func TestNoClusterIsLeftOfAnExistingObject(t *testing.T) {
	stored := decide(t, asking(""), nil, allows(t, "a", []string{"eu"})).Object
	out := remediated(t, stored, allows(t, "a", []string{"eu"}), allows(t, "b", []string{"us"}))
	if diff := cmp.Diff(stored.Object, out.Object.Object); diff != "" {
		t.Errorf("object (-stored +decided):\n%s", diff)
	}
	for _, v := range out.Verdicts {
		if len(v.Decision.Errors) != 1 || len(v.Changes) > 0 {
			t.Errorf("%s: errors %q, changes %v", v.Policy.Name, v.Decision.Errors, v.Changes)
		}
	}
}

// TestMessagesOnClustersAreBounded checks that messages have a bounded length with any number of clusters and policies.
func TestMessagesOnClustersAreBounded(t *testing.T) {
	var all policies
	for i := range 20 {
		var names []string
		for j := range 50 {
			names = append(names, strings.Repeat(string(rune('a'+i)), 250)+strings.Repeat("x", j%3))
		}
		all = append(all, allows(t, "p"+string(rune('a'+i)), names))
	}
	for _, v := range decide(t, asking(`["`+strings.Repeat("z", 10000)+`"]`), nil, all...).Verdicts {
		if len(v.Decision.Errors) != 1 || len(v.Decision.Errors[0]) > 4096 {
			t.Fatalf("errors %q", v.Decision.Errors)
		}
	}
}

// TestShares checks that the shares of clusters are merged by precedence, and that they are restored as other annotations are.
func TestShares(t *testing.T) {
	const sharesKey = placementv1.ClusterSharesAnnotation
	gives := func(name, clusters string, priority int32) *placement.Policy {
		decision, err := placement.ParseDecision(parseJSON(t, `{"clusters": `+clusters+`}`))
		if err != nil {
			t.Fatal(err)
		}
		p := allows(t, name, nil)
		p.Evaluator, p.Priority = shared{decision}, priority
		return p
	}
	low := gives("low", `{"ap": {"weight": 1}, "eu": {"weight": 5}}`, 0)
	high := gives("high", `{"eu": {"replicas": 3}, "us": {}}`, 9)
	names := gives("names", `["eu", "us"]`, 10)

	obj := newObject("web", metadata{"annotations": map[string]string{sharesKey: `{"eu":{"weight":9}}`}})
	out := decide(t, obj, nil, low, high, names)
	annotations := out.Object.GetAnnotations()
	if got, want := annotations[sharesKey], `{"eu":{"replicas":3}}`; got != want {
		t.Errorf("shares of the policy with the higher priority: %s, want %s", got, want)
	}
	if got, want := annotations[clustersKey], `["eu"]`; got != want {
		t.Errorf("clusters of all policies: %s, want %s", got, want)
	}

	out = decide(t, out.Object, out.Object, gives("high", `["eu", "us"]`, 9), names)
	if got, want := out.Object.GetAnnotations()[sharesKey], `{}`; got != want {
		t.Errorf("shares when the policies give none any more: %s, want %s: those of the developer do not count", got, want)
	}
	if again := decide(t, out.Object, out.Object, gives("high", `["eu", "us"]`, 9), names); again.Object.GetAnnotations()[sharesKey] != `{}` {
		t.Errorf("shares after another decision: %s", again.Object.GetAnnotations()[sharesKey])
	}

	out = decide(t, out.Object, out.Object, silent(t, "high"), silent(t, "names"))
	if got, want := out.Object.GetAnnotations()[sharesKey], `{"eu":{"weight":9}}`; got != want {
		t.Errorf("shares when the policies give no clusters any more: %s, want those of the developer, %s", got, want)
	}

	for name, change := range map[string]func(*placement.Policy){"Manual": manual, "NewOnly": func(p *placement.Policy) { p.Remediation = placementv1.RemediationNewOnly }} {
		leaves := with(gives("names", `["eu", "us"]`, 10), change)
		stored := decide(t, newObject("web", nil), nil, leaves).Object
		update := stored.DeepCopy()
		update.SetAnnotations(map[string]string{clustersKey: `["eu","us"]`, sharesKey: `{"eu":{"replicas":9}}`})
		if got := decide(t, update, stored, leaves).Object.GetAnnotations()[sharesKey]; got != `{}` {
			t.Errorf("%s: shares that a developer adds later: %s, want {}", name, got)
		}
	}

	existing := newObject("web", metadata{"annotations": map[string]string{sharesKey: `{"eu":{"replicas":9}}`}})
	leaves := with(gives("leaves", `["eu", "us"]`, 10), manual)
	if got := decide(t, existing.DeepCopy(), existing, leaves, gives("moves", `["eu"]`, 0)).Object.GetAnnotations()[sharesKey]; got != `{}` {
		t.Errorf("shares of an existing object that one of two policies leaves as it is: %s, want {}", got)
	}

	out = decide(t, newObject("web", metadata{"annotations": map[string]string{sharesKey: "all"}}), nil, with(names, warns))
	if got, want := out.Object.GetAnnotations()[sharesKey], "all"; got != want {
		t.Errorf("shares with a policy that is not enforced: %s, want %s", got, want)
	}
}

// TestDecidedClusters checks that the record says which lists policies decided if a policy delivers the object, and that it does not grow
// otherwise.
func TestDecidedClusters(t *testing.T) {
	const same = `["eu"]`
	delivers := func(p *placement.Policy) {
		p.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
	}
	d := &placement.Decider{Keyring: keyring(t, "k")}
	decided := func(obj *unstructured.Unstructured) bool { return d.Decided(obj, "default") }
	plain, delivering, unsaid := allows(t, "a", []string{"eu"}), with(allows(t, "a", []string{"eu"}), delivers), with(allows(t, "a", nil), delivers)
	for _, p := range []*placement.Policy{plain, delivering, unsaid} {
		p.Evaluator = shared{placement.Decision{Clusters: p.Evaluator.(shared).Clusters}}
	}
	if obj := decide(t, asking(same), nil, plain).Object; recordOf(obj) != "" || decided(obj) {
		t.Errorf("record %s of an object that no policy delivers", recordOf(obj))
	}
	stored := decide(t, asking(same), nil, delivering).Object
	if !decided(stored) || stored.GetAnnotations()[clustersKey] != same {
		t.Errorf("record %s of a delivered object", recordOf(stored))
	}
	if out := remediated(t, stored, delivering); recordOf(out.Object) != recordOf(stored) || len(out.Verdicts[0].Changes) > 0 {
		t.Errorf("the second decision changes the record to %s: %v", recordOf(out.Object), out.Verdicts[0].Changes)
	}
	older := remediated(t, asking(same), delivering)
	if changes := older.Verdicts[0].Changes; !decided(older.Object) || len(changes) != 1 || !changes[0].RecordsOnly() || !changes[0].Done(older.Object) {
		t.Errorf("an existing object: record %s, changes %v", recordOf(older.Object), changes)
	}
	for name, obj := range map[string]*unstructured.Unstructured{
		"NoRule":      decide(t, asking(same), nil, unsaid).Object,
		"NoLonger":    remediated(t, stored, unsaid).Object,
		"Edited":      annotated(stored, clustersKey, `["us"]`),
		"Forged":      annotated(asking(same), placementv1.RequestedAnnotation, strings.Replace(recordOf(stored), `"signature":"`, `"signature":"A`, 1)),
		"NoClusters":  asking(""),
		"OtherObject": renamed(stored, "other"),
	} {
		if decided(obj) {
			t.Errorf("%s counts as decided", name)
		}
	}
	if got := remediated(t, stored, with(allows(t, "a", nil), func(p *placement.Policy) { delivers(p); failing(p) })).Object; !decided(got) {
		t.Error("a policy that can't decide for a while makes the list the developer's")
	}
}

// TestReplayedClusters checks that a record of an earlier decision, which a client brings back while a policy can't decide, does not count
// as a decision.
func TestReplayedClusters(t *testing.T) {
	version := func(name string, clusters ...string) *placement.Policy {
		p := allows(t, name, clusters)
		p.Evaluator, p.Delivery = shared{placement.Decision{Clusters: clusters}}, &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
		return p
	}
	undecided := with(version("a"), failing)
	d := &placement.Decider{Keyring: keyring(t, "k")}
	for name, tc := range map[string]struct {
		asks string
		// were and are the policies before and after us is forbidden, and later those during the request.
		were, are, later []*placement.Policy
		// want is the list: that of the record while no policy can decide, and otherwise the developer's.
		want string
	}{
		"Alone":      {were: []*placement.Policy{version("a", "us")}, are: []*placement.Policy{version("a", "eu")}, later: []*placement.Policy{undecided}, want: `["us"]`},
		"WithList":   {asks: `["us"]`, were: []*placement.Policy{version("a", "eu", "us")}, are: []*placement.Policy{with(version("a", "eu"), ignores)}, later: []*placement.Policy{undecided}, want: `["us"]`},
		"WithSilent": {were: []*placement.Policy{version("a", "us"), version("b", "us")}, are: []*placement.Policy{version("a", "eu"), version("b", "eu", "us")}, later: []*placement.Policy{undecided, silent(t, "b")}},
		"LeftBehind": {were: []*placement.Policy{version("b", "us")}, are: []*placement.Policy{version("b", "eu")}, later: []*placement.Policy{silent(t, "a")}},
	} {
		t.Run(name, func(t *testing.T) {
			first := decide(t, asking(tc.asks), nil, tc.were...).Object
			now := remediated(t, first, tc.are...).Object
			if !d.Decided(first, "default") || !d.Decided(now, "default") || recordOf(first) == recordOf(now) {
				t.Fatalf("records %s, %s", recordOf(first), recordOf(now))
			}
			replayed := annotated(annotated(now, clustersKey, first.GetAnnotations()[clustersKey]), placementv1.RequestedAnnotation, recordOf(first))
			for step, out := range map[string]*unstructured.Unstructured{
				"updated": decide(t, replayed, now, tc.later...).Object, "created": decide(t, replayed, nil, tc.later...).Object,
			} {
				if got := out.GetAnnotations()[clustersKey]; got != tc.want || d.Decided(out, "default") {
					t.Errorf("%s: %s counts as decided: %t", step, got, d.Decided(out, "default"))
				}
				for _, healed := range [][]*placement.Policy{tc.were, tc.are} {
					want := remediated(t, first, healed...).Object.GetAnnotations()[clustersKey]
					again := remediated(t, out, healed...)
					if got := again.Object.GetAnnotations()[clustersKey]; got != want || !d.Decided(again.Object, "default") || len(again.Verdicts[0].Changes) == 0 {
						t.Errorf("%s: %s, want %s; the record %s, changes %v", step, got, want, recordOf(again.Object), again.Verdicts[0].Changes)
					}
				}
			}
		})
	}

	t.Run("Share", func(t *testing.T) {
		first := decide(t, asking(""), nil, version("a", "eu"), version("b", "eu", "us")).Object
		now := remediated(t, first, version("a", "eu", "us"), version("b", "eu")).Object
		replayed := annotated(now, placementv1.RequestedAnnotation, recordOf(first))
		if recordOf(first) == recordOf(now) {
			t.Fatalf("records %s", recordOf(now))
		}
		if got := decide(t, replayed, now, version("a", "eu", "us"), with(version("b"), failing)).Object.GetAnnotations()[clustersKey]; got != `["eu"]` {
			t.Errorf("a policy that can't decide allows what it allowed earlier: %s", got)
		}
	})
}

func annotated(obj *unstructured.Unstructured, key, value string) *unstructured.Unstructured {
	out := obj.DeepCopy()
	annotations := out.GetAnnotations()
	annotations[key] = value
	out.SetAnnotations(annotations)
	return out
}

func renamed(obj *unstructured.Unstructured, name string) *unstructured.Unstructured {
	out := obj.DeepCopy()
	out.SetName(name)
	return out
}
