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

// Package planstore stores approved plans, so that a later leader can carry out the rest of them.
package planstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/policy"
)

// labelApprovedPlan is the label of the ControllerRevisions that store an approved plan. Its value is made from the name of the plan's
// policy by policy.RevisionName, because the name itself may be too long for a label.
const labelApprovedPlan = "placement.berth.dev/approved-plan"

// maxPartMoves is the maximum number of moves in one ControllerRevision: 800 KB in base64. etcd takes 1.5 MB by default.
const maxPartMoves = 40_000

// Store stores approved plans until they are carried out, as ControllerRevisions in Berth's own namespace. Only one goroutine may call
// Save and Remove, after Load has returned.
type Store struct {
	Client    client.Client // Reads and writes without a cache.
	Namespace string        // The namespace of the ControllerRevisions.
	Owned     bool          // Whether each ControllerRevision gets an owner reference to its policy, which must be in the same cluster.

	stored sets.Set[string] // The values of labelApprovedPlan of policies that may have a stored plan. Load creates it.
}

// Plan is the approved plan of a policy: the name and UID of the policy, the plan's digest, and its moves. The data of a ControllerRevision
// is a Plan with at most maxPartMoves of the moves; its other fields are those of the complete plan.
type Plan struct {
	Policy string    `json:"policy"` // The name of the policy.
	UID    types.UID `json:"uid"`    // The UID of the policy.
	Digest string    `json:"digest"` // The digest of the complete plan, the same in each part. It shows whether the joined moves are complete.
	Moves  []byte    `json:"moves"`  // The moves, or a part of them, as moveset.Set.Encode returns them.
}

// Load reads the stored plans, by the name of their policy, and joins their parts. It skips a ControllerRevision that can't be read. Also a
// plan of which a part is missing is returned: the caller must check that its moves have its digest.
func (s *Store) Load(ctx context.Context) (map[string]Plan, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace), client.HasLabels{labelApprovedPlan}); err != nil {
		return nil, fmt.Errorf("reading the approved plans: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	out, stored := map[string]Plan{}, sets.New[string]()
	for _, revision := range list.Items {
		stored.Insert(revision.Labels[labelApprovedPlan])
		var part Plan
		if err := json.Unmarshal(revision.Data.Raw, &part); err != nil {
			ctrllog.FromContext(ctx).Info("An approved plan can't be read; its rest has to be approved again",
				"controllerrevision", revision.Name, "reason", err.Error())
			continue
		}
		part.Moves = append(out[part.Policy].Moves, part.Moves...)
		out[part.Policy] = part
	}
	s.stored = stored
	return out, nil
}

// Save stores the approved plan of a policy, in one ControllerRevision or more, after it has removed an earlier one of the policy.
func (s *Store) Save(ctx context.Context, p *placementv1.PlacementPolicy, plan *moveset.Set) error {
	if err := s.Remove(ctx, p.Name); err != nil {
		return err
	}
	s.stored.Insert(policy.RevisionName(p.Name))
	part := int64(0)
	for moves := range slices.Chunk(plan.Encode(), maxPartMoves*moveset.Bytes) {
		part++
		text, err := json.Marshal(Plan{Policy: p.Name, UID: p.UID, Digest: plan.Digest, Moves: moves})
		if err != nil {
			return fmt.Errorf("encoding plan %s: %w", plan.Digest, err)
		}
		revision := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Namespace, Name: fmt.Sprintf("%s-plan-%d", policy.RevisionName(p.Name), part),
				Labels: map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth",
					labelApprovedPlan: policy.RevisionName(p.Name)},
			},
			Revision: part, Data: runtime.RawExtension{Raw: text},
		}
		if s.Owned {
			if err := controllerutil.SetOwnerReference(p, revision, s.Client.Scheme()); err != nil {
				return err
			}
		}
		if err := s.Client.Create(ctx, revision); err != nil {
			return fmt.Errorf("storing plan %s: %w", plan.Digest, err)
		}
	}
	return nil
}

// Remove deletes the stored plan of a policy, if it may have one.
func (s *Store) Remove(ctx context.Context, policyName string) error {
	name := policy.RevisionName(policyName)
	if !s.stored.Has(name) {
		return nil
	}
	list := &appsv1.ControllerRevisionList{}
	if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{labelApprovedPlan: name}); err != nil {
		return notDeleted(policyName, err)
	}
	for i := range list.Items {
		if err := s.Client.Delete(ctx, &list.Items[i]); client.IgnoreNotFound(err) != nil {
			return notDeleted(policyName, err)
		}
	}
	s.stored.Delete(name)
	return nil
}

// notDeleted returns the error of Remove.
func notDeleted(policyName string, err error) error {
	return fmt.Errorf("the stored plan of PlacementPolicy %q is not needed any more and can't be deleted; until it is, no other "+
		"approved plan of the policy is carried out: %w", policyName, err)
}
