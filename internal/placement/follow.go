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

package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
)

// ReasonNotChosen is the reason of an Explainer for a cluster that meets all requirements of the policy.
const ReasonNotChosen = "eligible, but the policy chooses others"

// Controllers copy the annotations of an object to what they make from it, the list of its clusters included. Such a list is no wish of
// a developer: it says which clusters the controller has. A policy that matches both may have chosen others by now, for example because
// it keeps the controller where it is until its plan is approved. The copy then follows the controller.
//
// Any user can write an owner reference and copy a list, so both count only as far as the stored controller confirms them.

// follow lets the object keep the clusters that it copied from its controller, if the stored controller confirms the copy. A policy that
// matches the controller, too, and would change the clusters then gives neither clusters nor shares (Verdict.Follows), or gives the copied
// ones. All other policies decide as usual, except that one that agrees with the copy gives a ReplicaSet or a ControllerRevision neither.
// Policies that would change the clusters do so if the controller does not exist or Berth may not read it, and can't decide if the lookup
// fails otherwise.
func (d *Decider) follow(ctx context.Context, r *Request, current *intent, verdicts []*Verdict) {
	copied, ok := copiedClusters(r, current)
	if !ok {
		return
	}
	resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(copied.controller.APIVersion, copied.controller.Kind))
	var differing []*Verdict
	for _, v := range verdicts {
		switch {
		case v.Err != nil || v.Decision.Clusters == nil:
		case !v.gives(copied):
			if v.Policy.Matcher.SelectsResource(resource) {
				differing = append(differing, v)
			}
		case copied.kept:
			v.follow(copied)
		}
	}
	if d.Owners != nil && len(differing) > 0 {
		d.followStored(ctx, r, current, copied, differing)
	}
	if slices.ContainsFunc(verdicts, func(v *Verdict) bool { return v.Follows != "" }) {
		current.copied = metadataOf(r.Object, fieldAnnotations)[placementv1.RequestedAnnotation]
	}
}

// clusterCopy is the list of clusters of an object that has a controller, and probably copied the list from it.
type clusterCopy struct {
	controller *metav1.OwnerReference // The reference to the controller.
	// names are the names in the list, sorted, each once.
	names []string
	// list is the value of the clusters annotation.
	list string
	// shares is the value of the annotation with the shares of the clusters; nil if there is none.
	shares *string
	// kept reports whether the controller restores the annotations of the object when they change, so that they must stay as they are.
	// Controllers do that with ReplicaSets and ControllerRevisions.
	kept bool
}

// copiedClusters returns the clusterCopy of an object. ok is false if the object has no controller or no valid list, is a placement object,
// or lost a part of the list to a policy.
func copiedClusters(r *Request, current *intent) (c clusterCopy, ok bool) {
	requested := current.wanted[fieldAnnotations]
	text, listed := requested[placementv1.ClustersAnnotation]
	controller := metav1.GetControllerOfNoCopy(r.Object)
	if controller == nil || !listed || current.clusters != nil {
		return clusterCopy{}, false
	}
	if current.current[fieldAnnotations][placementv1.ClustersAnnotation] != text {
		// A policy took something from the list. It must not come back by a reference.
		return clusterCopy{}, false
	}
	names, err := parseClusterNames(text)
	if err != nil {
		return clusterCopy{}, false
	}
	// A long list may have few names.
	slices.Sort(names)
	names = slices.Compact(names)
	return clusterCopy{controller, names, text, optional(requested, placementv1.ClusterSharesAnnotation),
		HoldsRecordCopies(r.Resource.GroupResource())}, true
}

// gives reports whether the policy's own decision leaves the copied list and shares as they are: it gives equal shares, or none if there
// are none, and allows each cluster in the list. If a developer's list may not narrow what the policy allows, it must allow no other
// clusters.
func (v *Verdict) gives(c clusterCopy) bool {
	shares, given := v.Decision.Annotations[placementv1.ClusterSharesAnnotation]
	if given && !ptr.Equal(c.shares, &shares) || !given && ptr.Deref(c.shares, noShares) != noShares {
		return false
	}
	if !sets.New(v.Decision.Clusters...).HasAll(c.names...) {
		return false
	}
	return policyAllowance{verdict: v}.narrows() || clustersText(v.Decision.Clusters) == c.list
}

// follow changes the verdict so that the policy gives neither clusters nor shares, because the object follows its controller. It copies
// what it changes of the decision, which may be shared with other objects.
func (v *Verdict) follow(c clusterCopy) {
	v.Follows = c.controller.Kind + " " + c.controller.Name
	v.Decision.Clusters = nil
	v.Decision.Annotations = maps.Clone(v.Decision.Annotations)
	delete(v.Decision.Annotations, placementv1.ClusterSharesAnnotation)
}

// followStored lets the object follow its controller for the policies of these verdicts, which would change the copied clusters. It does so
// only if the stored controller confirms the copy, and only for a policy that matches the controller, too: such a policy gives nothing if
// the object was made from the controller, and otherwise the copied clusters, if it could have chosen them. In all other cases, a policy
// decides as usual, also if the controller does not exist or Berth may not read it. If the lookup fails in another way, or if it is not
// known whether a policy matches the controller, the policy can't decide.
func (d *Decider) followStored(ctx context.Context, r *Request, current *intent, c clusterCopy, verdicts []*Verdict) {
	controller, err := d.Owners.Owner(ctx, r.Namespace, *c.controller)
	switch {
	case apierrors.IsForbidden(err) || err == nil && (controller == nil || controller.GetUID() != c.controller.UID):
		return
	case err != nil:
		for _, v := range verdicts {
			v.Err = fmt.Errorf("looking up %s %s, which controls the object: %w", c.controller.Kind, c.controller.Name, err)
		}
		return
	}
	made, forged, err := d.copyOf(r, controller)
	stored := metadataOf(controller, fieldAnnotations)
	same := stored[placementv1.ClustersAnnotation] == c.list && ptr.Equal(optional(stored, placementv1.ClusterSharesAnnotation), c.shares)
	if err != nil || forged || !same && (!made || !keepsClusters(r)) {
		return
	}
	for _, v := range verdicts {
		switch matches, err := d.matchesController(ctx, r, v.Policy, controller); {
		case err != nil:
			v.Err = err
		case matches && made:
			v.follow(c)
		case matches && d.eligible(WithNamespace(ctx, r.Namespace), v, current, c.names):
			v.give(c)
		}
	}
}

// copyOf reports whether the object was made from its stored controller and has no content of its own: it is a ReplicaSet with the
// controller's template and no more pods than the controller gives it, or a revision, from which nothing runs. A ReplicaSet may have the
// template of an older revision only as long as it keeps its lists, too. forged reports whether it is a ReplicaSet that was not made so,
// although its controller makes ReplicaSets. copyOf completes a ReplicaSet by the request's Source.
func (d *Decider) copyOf(r *Request, controller *unstructured.Unstructured) (made, forged bool, err error) {
	if r.Resource.GroupResource() != replicaSets {
		return HoldsRecordCopies(r.Resource.GroupResource()), false, nil
	}
	if !d.Templates.MakesReplicaSets(controller.GroupVersionKind().GroupKind()) {
		return false, false, nil
	}
	if r.Source != nil {
		if err := r.Source.Complete(); err != nil {
			return false, false, err
		}
	}
	made = (keepsTemplate(r, metav1.GetControllerOfNoCopy(r.Object)) && keepsLists(r) || d.makes(controller, r)) && !outgrows(r, controller)
	return made, !made, nil
}

// outgrows reports whether a ReplicaSet has more pods than its controller gives it, and did not have them before the update: a controller
// that was scaled down scales its ReplicaSets only afterwards.
func outgrows(r *Request, controller *unstructured.Unstructured) bool {
	n := replicasOf(r.Object)
	if r.Old != nil && r.Old != r.Object && n <= replicasOf(r.Old) {
		return false
	}
	most := replicasOf(controller)
	return n > most+surgeOf(controller, most)
}

// replicasOf returns spec.replicas of a ReplicaSet or its controller; 1 if it is not set.
func replicasOf(o *unstructured.Unstructured) int64 {
	if n, set, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); set {
		return n
	}
	return 1
}

// surgeOf returns how many pods a controller with a number of replicas may have beyond that during a rollout: by
// spec.strategy.rollingUpdate.maxSurge, or 25% of them, rounded up, if the controller has no such field, as with the strategy Recreate.
func surgeOf(controller *unstructured.Unstructured, replicas int64) int64 {
	surge := intstr.FromString("25%")
	switch value, _, _ := unstructured.NestedFieldNoCopy(controller.Object, "spec", "strategy", "rollingUpdate",
		"maxSurge"); value := value.(type) {
	case int64:
		return value
	case string:
		surge = intstr.FromString(value)
	}
	// A value that the API server refuses counts as none.
	out, _ := intstr.GetScaledValueFromIntOrPercent(&surge, int(replicas), true)
	return int64(out)
}

// followFields and followSetFields are the fields of objects and ReplicaSets that show whether they follow their controller.
var (
	followFields    = projection.Fields("metadata.ownerReferences.**")
	followSetFields = projection.Fields("metadata.ownerReferences.**", "spec.replicas")
)

// FollowFields returns the fields of objects of a type that tell whether they follow their controller: the owner references, and the number
// of replicas of a ReplicaSet.
func FollowFields(resource schema.GroupResource) *projection.FieldSet {
	if resource == replicaSets {
		return followSetFields
	}
	return followFields
}

// keepsClusters reports whether the copy may keep its lists although its controller has others by now, as an older revision does: a request
// that does not change them may keep them, and so may an existing object from which nothing runs.
func keepsClusters(r *Request) bool {
	switch r.Old {
	case nil:
		return false
	case r.Object:
		return r.Resource.GroupResource() != replicaSets || replicasOf(r.Object) == 0
	}
	return keepsLists(r)
}

// keepsLists reports whether the object exists already, and keeps its controller, its clusters, and their shares.
func keepsLists(r *Request) bool {
	switch r.Old {
	case nil:
		return false
	case r.Object:
		return true
	}
	before, after := metav1.GetControllerOfNoCopy(r.Old), metav1.GetControllerOfNoCopy(r.Object)
	if before == nil || before.UID != after.UID {
		return false
	}
	was, is := metadataOf(r.Old, fieldAnnotations), metadataOf(r.Object, fieldAnnotations)
	return slices.IndexFunc([]string{placementv1.ClustersAnnotation, placementv1.ClusterSharesAnnotation}, func(key string) bool {
		return !ptr.Equal(optional(was, key), optional(is, key))
	}) < 0
}

// matchesController reports whether a policy matches the controller of the request's object. It guesses the resource name of the
// controller's kind; a kind with another resource name is not matched.
func (d *Decider) matchesController(ctx context.Context, r *Request, p *Policy, controller *unstructured.Unstructured) (bool, error) {
	resource, _ := meta.UnsafeGuessKindToResource(controller.GroupVersionKind())
	of := Request{Resource: resource, Namespace: controller.GetNamespace(), Object: controller, Old: controller}
	var user authenticationv1.UserInfo
	if r.Admission != nil {
		user = r.Admission.UserInfo
	}
	of.Admission = AdmissionOf(admissionv1.Update, resource, of.Namespace, controller, user)
	object, err := d.matchObject(ctx, &of, controller)
	if err != nil {
		return false, err
	}
	return p.Matcher.Matches(ctx, object)
}

// eligible reports whether the policy could have chosen the clusters of the object's controller for the object: they meet all requirements
// of the policy, and are no more than it gives, with those in which it lets the object stay although they are not ready. It is false for a
// policy that can't tell.
func (d *Decider) eligible(ctx context.Context, v *Verdict, current *intent, names []string) bool {
	e, ok := v.Policy.Evaluator.(Explainer)
	if !ok {
		return false
	}
	stays, _ := d.staysIn(v.Policy, v.Policy.unready(), names)
	if len(names) > len(v.Decision.Clusters)+len(stays) {
		return false
	}
	reasons := e.WhyNot(ctx, tolerating(current.input(), stays), names)
	for _, name := range names {
		if reasons[name] != ReasonNotChosen {
			return false
		}
	}
	return true
}

// give sets the clusters and shares of the verdict's decision to the copied ones, as if the policy had chosen them. It changes nothing else
// in the verdict, and copies what it changes of the decision, which may be shared with other objects.
func (v *Verdict) give(c clusterCopy) {
	v.Decision.Clusters = c.names
	v.Decision.Annotations = maps.Clone(v.Decision.Annotations)
	if delete(v.Decision.Annotations, placementv1.ClusterSharesAnnotation); c.shares != nil {
		if v.Decision.Annotations == nil {
			v.Decision.Annotations = map[string]string{}
		}
		v.Decision.Annotations[placementv1.ClusterSharesAnnotation] = *c.shares
	}
}
