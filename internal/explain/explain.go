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

// Package explain says why an object is placed as it is: which policies match it and which nearly do, what each decides,
// which one determines each key, and why each cluster or node that is not chosen lost.
package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/waiting"
)

// Explanation is the explanation of the placement of one object. Its JSON form is what kubectl berth explain prints with -o json.
type Explanation struct {
	Object ObjectReference `json:"object"`
	// Exists reports whether the object exists. Otherwise the explanation concerns its creation.
	Exists bool `json:"exists"`
	// NoNamespace reports whether the namespace of an object that does not exist does not exist either, so that the API server refuses the
	// object.
	NoNamespace bool `json:"noNamespace,omitempty"`
	// Denied reports whether an enforced policy denies the object, or can't decide it and denies it for that. An object that does not exist
	// then gets no values and no clusters. An existing one stays as it is.
	Denied bool `json:"denied,omitempty"`
	// Policies are the policies of all modes that match the object, those with the highest priority first, and by name if the priority is
	// equal.
	Policies []Policy `json:"policies"`
	// Mismatches are the policies that do not match the object although their spec.match.resourceRules select its type, or name its plural
	// with another group or version; sorted by name.
	Mismatches []Mismatch `json:"mismatches,omitempty"`
	// Keys are the annotations, labels, scheduling fields, and lists of clusters that enforced policies set, restore, or compete for, sorted
	// by field and key.
	Keys []Key `json:"keys,omitempty"`
	// Clusters are the clusters that policies choose among; nil if no policy restricts them, and Options.WhyNot names none.
	Clusters *Candidates `json:"clusters,omitempty"`
	// Nodes are the nodes on which policies evaluated predicates; nil if they evaluated none.
	Nodes *Candidates `json:"nodes,omitempty"`
	// Delivery says that the object is not delivered, because no policy decides its clusters, although a policy with spec.delivery matches it;
	// empty in all other cases.
	Delivery string `json:"delivery,omitempty"`
}

// ObjectReference identifies an object by its apiVersion, kind, namespace, and name, or metadata.generateName in place of a missing name.
type ObjectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Policy is a policy that matches the object: its identity, which of its rules decides the object and how that rule selects clusters, its
// decision or error, what it reads, and what its status says of the object's moves.
type Policy struct {
	Name       string           `json:"name"`
	Generation int64            `json:"generation"`
	Priority   int32            `json:"priority"`
	Mode       placementv1.Mode `json:"mode"`
	// Rule is the name of the rule of spec.rules that decides the object: the first whose conditions the object meets, not counting those that
	// find too few clusters and leave the object to the next rule. It is empty if there is none, and for a policy without rules.
	Rule     string `json:"rule,omitempty"`
	HasRules bool   `json:"hasRules,omitempty"` // whether the policy has spec.rules
	// Selection says how Rule selects among the eligible clusters; nil if it has neither limit nor spread, so that it chooses all of them, or
	// there is no Rule.
	Selection *Selection `json:"selection,omitempty"`
	// AlsoApply are the rules after Rule whose conditions the object meets, too, without those for all objects. They decide nothing for it.
	AlsoApply []string `json:"alsoApply,omitempty"`
	// Decided has the number of existing objects that each rule decides, from the status of the policy; nil for a policy without rules.
	Decided []placementv1.RuleStatus `json:"decided,omitempty"`
	// Matched is the number of existing objects that the policy matches, from its status; nil if the status has none, and for a policy without
	// rules.
	Matched *int32 `json:"matched,omitempty"`
	// Rollout says which version decides the object, and why. It is empty for a policy without spec.rollout.
	Rollout string `json:"rollout,omitempty"`
	// Decision is what the policy decides; nil if Error is set.
	Decision *Decision `json:"decision,omitempty"`
	// Error says why the policy can't decide.
	Error string `json:"error,omitempty"`
	// Follows is the kind and the name of the object's controller, such as "Deployment shop", if the object copied its clusters from there, so
	// that the policy gives it none of its own; empty otherwise.
	Follows string `json:"follows,omitempty"`
	// Stays are sentences, one for each cluster that is not ready and in which the policy lets the object stay: until a time or, without
	// spec.clusters.leaveUnreadyAfter, without a limit. There are none if all clusters of the object are ready, or it has to leave the others.
	Stays []string `json:"stays,omitempty"`
	// Moves are sentences on the last patch of the object if that failed, and on a move of it to other clusters that is under way or failed,
	// as status.failures and status.moving of the policy have them.
	Moves []string `json:"moves,omitempty"`
	// Reads are the resource types whose objects the policy reads.
	Reads []Read `json:"reads,omitempty"`
	// AmbiguousClusters are sentences on names of clusters that several objects of the inventories have, so that policies can't choose them.
	AmbiguousClusters []string `json:"ambiguousClusters,omitempty"`
}

// Selection is how a rule selects among its eligible clusters: its limit, its minGain, and whether it has spread. First come those with the
// lower Rank.Level, and of those with the same level the ones whose digest of the names of the object and the cluster sorts first.
type Selection struct {
	Limit   int32 `json:"limit,omitempty"`  // the most clusters that the rule chooses in all; 0 for no limit
	MinGain int32 `json:"minGain"`          // by how much scores must differ to make one Rank.Level; at least 1
	Spread  bool  `json:"spread,omitempty"` // whether the rule chooses clusters of several domains, such as regions
}

// selectionOf returns how a rule selects among its eligible clusters; nil if it has neither limit nor spread, so that it chooses all.
func selectionOf(rule placementv1.Rule) *Selection {
	if rule.Limit == 0 && rule.Spread == nil {
		return nil
	}
	return &Selection{Limit: rule.Limit, MinGain: max(rule.MinGain, 1), Spread: rule.Spread != nil}
}

// Read is a resource type, without its version, whose objects a policy reads, with the number of the existing objects and the highest of
// their resourceVersions.
type Read struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"` // the number of existing objects of the type
	// Revision is the highest resourceVersion of the objects, which a change of one of them raises; empty if they have none.
	Revision string `json:"revision,omitempty"`
}

// Decision is the decision of one policy in the form of the decision contract.
type Decision struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Scheduling has scheduling fields of pods by the keys of package podscheduling.
	Scheduling map[string]string `json:"scheduling,omitempty"`
	// Clusters are the names of the clusters that the policy allows or chooses; nil if it does not restrict clusters, empty if it leaves none,
	// in which case spec.clusters.onEmpty says what happens.
	Clusters *[]string `json:"clusters,omitempty"`
	Errors   []string  `json:"errors,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Empty reports whether the policy gives the object nothing, and neither denies it nor warns.
func (d *Decision) Empty() bool {
	return len(d.Annotations)+len(d.Labels)+len(d.Scheduling)+len(d.Errors)+len(d.Warnings) == 0 && d.Clusters == nil
}

// Mismatch is a policy that does not match the object although its spec.match.resourceRules select the object's type, or name its plural
// with another group or version. It has the one part of spec.match, or the rollout, that excludes the object, and why.
type Mismatch struct {
	Policy string `json:"policy"`
	Part   string `json:"part"`   // the path below spec.match that excludes the object, or "rollout" for spec.rollout
	Reason string `json:"reason"` // why Part excludes the object
}

// Key is one annotation, label, scheduling field, or list of clusters of the object. A value is nil if the object lacks the key.
type Key struct {
	// Field is annotations (also for the annotation with the clusters), labels, scheduling, or clusters for the list of clusters in a field of
	// a placement object, such as a PropagationPolicy. The key of clusters is the path of the list.
	Field     string  `json:"field"`
	Key       string  `json:"key"`
	Requested *string `json:"requested"` // the value that the developer requested
	Current   *string `json:"current"`   // the value that the object has, or that its manifest has if it does not exist
	Decided   *string `json:"decided"`   // the value that the object should have; nil for an object that does not exist and that policies deny
	// Policy is the policy that determines Decided, or whose part of the affinity it is, because each policy adds a part; empty if the
	// developer's value is used.
	Policy string `json:"policy,omitempty"`
	// Overrides are the names of the enforced policies that decide another value, and lost to Policy because of their precedence.
	Overrides []string `json:"overrides,omitempty"`
	// Kept says why the decided value can't be set, for example because the API server would reject the change of a scheduling field; empty if
	// it can, even if it is not set yet.
	Kept string `json:"kept,omitempty"`
	// Waits says what an existing object waits for before it gets the decided value, such as an approval; empty if it has the value, or gets
	// it at once.
	Waits string `json:"waits,omitempty"`
}

// Explain explains the placement of an object. It returns an error if the object can't be decided at all, or Options.WhyNot names no
// cluster and no node. That policies deny the object is no error.
func Explain(ctx context.Context, s *simulation.Simulation, o simulation.Object, options Options) (*Explanation, error) {
	outcome, err := s.Decide(ctx, o)
	if err != nil {
		return nil, err
	}
	out := &Explanation{Object: referenceTo(o), Exists: o.Exists, NoNamespace: lacksNamespace(ctx, s, o),
		Denied: remediation.Blocks(outcome.Verdicts)}
	for _, v := range outcome.Verdicts {
		p := policyOf(s, v)
		if p.Rollout, err = s.Explain(ctx, s.Policy(p.Name), o); err != nil {
			return nil, err
		}
		if waits := waiting.OfRollout(p.Name, s.Policy(p.Name).Object.Status.Rollout); p.Rollout != "" && waits != nil {
			p.Rollout += "; the rollout waits " + waits.String()
		}
		if o.Exists {
			p.Moves = movesOf(p.Name, s.Policy(p.Name).Object.Status, o)
		}
		out.Policies = append(out.Policies, p)
	}
	if out.Mismatches, err = mismatches(ctx, s, o, outcome.Verdicts); err != nil {
		return nil, err
	}
	requested, err := requestedBy(ctx, s, o)
	if err != nil {
		return nil, err
	}
	out.Keys = keysOf(values{o.Content, s.Scheduling(o.Resource, o.Content)}, requested, outcome)
	switch {
	case o.Exists:
		describeWaits(s, o, out.Keys, outcome.Verdicts)
	case out.Denied:
		for i := range out.Keys {
			k := &out.Keys[i]
			k.Decided, k.Policy, k.Overrides = nil, "", nil
		}
	}
	if s.Undelivered(o, outcome) {
		out.Delivery = "no policy in mode Enforce decides the object's clusters, so Berth does not deliver the object; what was delivered " +
			"before stays"
	}
	e := &explainer{
		simulation: s, options: options, object: o, requested: requested.Unstructured, outcome: outcome,
		denied: out.Denied, keys: out.Keys, searches: map[string]*search{}, reports: map[string][]*predicates.Report{},
	}
	for i, v := range outcome.Verdicts {
		if search := e.searchIn(v.Policy); search != nil && len(search.spec) > 0 {
			rule, _ := search.decidingRule(ctx)
			p := &out.Policies[i]
			status := s.Policy(p.Name).Object.Status
			p.Rule, p.HasRules, p.Decided, p.Matched = rule.Name, true, status.Rules, status.Matched
			p.AlsoApply, p.Selection = search.laterRules(ctx), selectionOf(rule)
		}
	}
	out.Nodes = e.nodes(ctx)
	out.Clusters, err = e.clusters(ctx, out.Nodes)
	return out, err
}

// lacksNamespace reports whether an object does not exist, and its namespace does not exist either. It returns false if that is not known,
// as in files without any Namespace. The namespace default always exists.
func lacksNamespace(ctx context.Context, s *simulation.Simulation, o simulation.Object) bool {
	if o.Exists || o.Namespace == "" || o.Namespace == metav1.NamespaceDefault {
		return false
	}
	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	if found, err := s.Cluster().Get(ctx, namespaces, "", o.Namespace); err != nil || found != nil {
		return false
	}
	all, err := s.Cluster().List(ctx, namespaces, (&projection.FieldSet{}).Seal())
	return err == nil && len(all) > 0
}

// requestedBy returns the values of an object that its developer requested. For an object that does not exist, these are its own.
func requestedBy(ctx context.Context, s *simulation.Simulation, o simulation.Object) (values, error) {
	if !o.Exists {
		return values{o.Content, s.Scheduling(o.Resource, o.Content)}, nil
	}
	object, err := s.Requested(ctx, o)
	if err != nil {
		return values{}, err
	}
	scheduling, err := s.RequestedScheduling(ctx, o)
	return values{object, scheduling}, err
}

func referenceTo(o simulation.Object) ObjectReference {
	return ObjectReference{APIVersion: o.Content.GetAPIVersion(), Kind: o.Content.GetKind(), Namespace: o.Namespace,
		Name: cmp.Or(o.Content.GetName(), o.Content.GetGenerateName())}
}

// policyOf returns what a verdict says of its policy, and what the policy reads. Rollout, Moves, and the fields on rules are left unset.
func policyOf(s *simulation.Simulation, v *placement.Verdict) Policy {
	out := Policy{Name: v.Policy.Name, Generation: v.Policy.Generation, Priority: v.Policy.Priority, Mode: v.Policy.Mode}
	if binding := s.Policy(v.Policy.Name).VersionOf(v.Policy).Binding; binding != nil {
		for _, r := range binding.Resources {
			objects, _ := s.Size(r.GroupVersionResource)
			out.Reads = append(out.Reads, Read{r.GroupResource().String(), objects, s.Revision(r.GroupVersionResource)})
		}
		for _, a := range s.Ambiguous(binding) {
			out.AmbiguousClusters = append(out.AmbiguousClusters, a.String())
		}
	}
	for _, name := range v.Stays {
		text := fmt.Sprintf("cluster %s is marked as not ready: the object stays there, because the policy has no "+
			"spec.clusters.leaveUnreadyAfter", name)
		if !v.Until.IsZero() {
			text = fmt.Sprintf("cluster %s is marked as not ready: the object stays there until %s at least", name,
				v.Until.UTC().Format(time.RFC3339))
		}
		out.Stays = append(out.Stays, text)
	}
	if v.Err != nil {
		out.Error = v.Err.Error()
		return out
	}
	d := v.Decision
	out.Follows = v.Follows
	out.Decision = &Decision{Annotations: d.Annotations, Labels: d.Labels, Scheduling: d.Scheduling, Errors: d.Errors, Warnings: d.Warnings}
	if d.Clusters != nil {
		out.Decision.Clusters = &d.Clusters
	}
	return out
}

// movesOf returns a sentence for each failed patch of an object, and for each move to other clusters that is under way or failed, that a
// policy's status lists for the object; nil if there are none. Moves that are only planned do not count.
func movesOf(policy string, status placementv1.PlacementPolicyStatus, o simulation.Object) (out []string) {
	own := placementv1.ReferenceTo(o.Resource.GroupResource(), o.Namespace, o.Content.GetName())
	if status.Failures != nil {
		for _, f := range status.Failures.Sample {
			switch {
			case f.Object != own:
			case f.Reason == placementv1.PatchRefused:
				out = append(out, "the API server refused the last patch or eviction of the object, which counts as failed until one succeeds: "+
					f.Message)
			default:
				out = append(out, "Berth patched the object as policies decided, and it counts as failed until it runs: "+f.Message)
			}
		}
	}
	for _, m := range status.Moving {
		text := "Berth moved the object to other clusters at " + m.Since.UTC().Format(time.RFC3339)
		switch {
		case m.Object != own:
		case m.Deadline != nil:
			out = append(out, fmt.Sprintf("%s: it waits %s", text, waiting.Wait{Reason: waiting.Running, Policy: policy, Until: m.Deadline.Time}))
		case len(out) == 0:
			// The failure was released.
			out = append(out, text+", where the object did not run in time; it counts as being moved until it runs there or is deleted")
		}
	}
	return out
}

// mismatches returns the policies for the object's type that do not match the object, each with the reason.
func mismatches(ctx context.Context, s *simulation.Simulation, o simulation.Object, verdicts []*placement.Verdict) ([]Mismatch, error) {
	var out []Mismatch
	for _, p := range s.Policies() {
		if slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return v.Policy.Name == p.Name }) || !selectsPlural(p, o.Resource) {
			continue
		}
		mismatch, err := s.Mismatch(ctx, p, o)
		if err != nil {
			return nil, err
		}
		if mismatch != nil && mismatch.Part == match.PartRollout {
			if mismatch.Reason, err = s.Explain(ctx, p, o); err != nil {
				return nil, err
			}
			if waits := waiting.OfRollout(p.Name, p.Object.Status.Rollout); waits != nil {
				mismatch.Reason += "; the rollout waits " + waits.String()
			}
		}
		if mismatch != nil {
			out = append(out, Mismatch{Policy: p.Name, Part: mismatch.Part, Reason: mismatch.Reason})
		}
	}
	return out, nil
}

// selectsPlural reports whether spec.match.resourceRules of a version of the policy name the object's resource, in whatever group and
// version, or select the resource in its own group and version by a wildcard.
func selectsPlural(p *simulation.Policy, resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(p.Versions(), func(v *simulation.Version) bool {
		return v.Matcher.SelectsResource(resource) || slices.ContainsFunc(v.Spec.Match.ResourceRules, func(r placementv1.ResourceRule) bool {
			return slices.Contains(r.Resources, resource.Resource)
		})
	})
}

// keyName identifies a key that policies set: the field, such as labels, and the key in it.
type keyName struct{ field, key string }

// values are the values of an object, as it is or as it was requested: its content, and its scheduling fields by merge key.
type values struct {
	*unstructured.Unstructured
	scheduling map[string]string
}

// at returns the value of a key in a field: annotations, labels, scheduling, or clusters, of which outcome knows where the object lists
// them. It is nil if the object does not have it. If the key is a policy's part of the affinity, the value is the whole affinity of the
// object.
func (o values) at(field, name string, outcome *placement.Outcome) *string {
	switch field {
	case "scheduling":
		if podscheduling.IsContribution(name) {
			name = podscheduling.Affinity
		}
		if value, ok := o.scheduling[name]; ok {
			return &value
		}
		return nil
	case "clusters":
		_, _, value := outcome.ClustersIn(o.Unstructured)
		return value
	default:
		return valueAt(o.Unstructured, field, name)
	}
}

// keysOf returns the keys that enforced policies decide or change, sorted by field and key, without Waits.
func keysOf(current, requested values, outcome *placement.Outcome) []Key {
	keys := map[keyName]*Key{}
	get := func(field, name string) *Key {
		k, ok := keys[keyName{field, name}]
		if !ok {
			k = &Key{Field: field, Key: name, Current: current.at(field, name, outcome), Requested: requested.at(field, name, outcome)}
			k.Decided = k.Current
			keys[keyName{field, name}] = k
		}
		return k
	}
	for _, v := range outcome.Verdicts {
		if v.Err != nil || v.Policy.Mode != placementv1.ModeEnforce {
			continue
		}
		for field, decided := range map[string]map[string]string{"annotations": v.Decision.Annotations, "labels": v.Decision.Labels,
			"scheduling": v.Decision.Scheduling} {
			for name, value := range decided {
				if field == "scheduling" && name == podscheduling.Affinity {
					name = podscheduling.AffinityKey(v.Policy.Name)
				}
				k := get(field, name)
				if k.Policy == "" {
					k.Policy, k.Decided = v.Policy.Name, &value
				} else if *k.Decided != value {
					k.Overrides = append(k.Overrides, v.Policy.Name)
				}
			}
		}
		if v.Decision.Clusters != nil {
			field, name, _ := outcome.ClustersIn(current.Unstructured)
			if k := get(field, name); k.Policy == "" && len(v.Decision.Errors) == 0 {
				k.Policy = v.Policy.Name
			}
		}
		for _, c := range v.Changes {
			k := get(c.Field, c.Key)
			k.Policy, k.Decided, k.Kept = v.Policy.Name, c.To, c.Immutable
			if !k.adds() {
				k.Current = c.From
			}
		}
	}
	return slices.SortedFunc(valuesOf(maps.Values(keys)), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key))
	})
}

// adds reports whether the decided value is a part that one policy adds to the affinity, in place of replacing the current value. It is
// false for all keys but those of such parts, also for the affinity as a whole.
func (k *Key) adds() bool { return k.Field == "scheduling" && podscheduling.IsContribution(k.Key) }

// settled reports whether the object has the decided value: the current value equals it, or both are nil. A part that a policy adds to the
// affinity is there if the current affinity implies it.
func (k *Key) settled() bool {
	return ptr.Equal(k.Current, k.Decided) || k.adds() && k.Decided != nil && podscheduling.Implied(k.Current, *k.Decided)
}

// describeWaits sets Waits of each key of an existing object whose current value differs from the decided one, except for keys with Kept.
func describeWaits(s *simulation.Simulation, o simulation.Object, keys []Key, verdicts []*placement.Verdict) {
	of := map[string]*placement.Verdict{}
	for _, v := range verdicts {
		of[v.Policy.Name] = v
	}
	for i := range keys {
		k := &keys[i]
		switch v := of[k.Policy]; {
		case v == nil || k.Kept != "" || k.settled():
		case o.Content.GetDeletionTimestamp() != nil:
			k.Waits = "the object keeps the current value, because Berth does not patch an object that is being deleted. If no controller " +
				"removes the object's finalizers, remove them"
		default:
			k.Waits = Waits(s, o, v)
		}
	}
}

// Waits returns what an existing object waits for before remediation changes it as the policy of a verdict decides, such as an approval, or
// that this policy denies the object; "" if remediation changes the object at once.
func Waits(s *simulation.Simulation, o simulation.Object, v *placement.Verdict) string {
	if v.Err == nil && len(v.Decision.Errors) > 0 {
		return fmt.Sprintf("the object keeps the current value while PlacementPolicy %s denies the object", v.Policy.Name)
	}
	if text := s.Waits(v.Policy, o.Namespace).String(); text != "" {
		return "it waits " + text
	}
	return ""
}

// valuesOf returns a sequence of the keys that pointers point to.
func valuesOf(keys func(func(*Key) bool)) func(func(Key) bool) {
	return func(yield func(Key) bool) {
		for k := range keys {
			if !yield(*k) {
				return
			}
		}
	}
}

// valueAt returns the value of an annotation or label; nil if the object does not have it.
func valueAt(obj *unstructured.Unstructured, field, key string) *string {
	value, ok, _ := unstructured.NestedString(obj.Object, "metadata", field, key)
	if !ok {
		return nil
	}
	return &value
}
