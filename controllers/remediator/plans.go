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
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/remediation"
)

// labelApprovedPlan is the label of the ControllerRevisions that store an approved plan. Its value is the name of the revision of
// the plan's policy, because a policy's name may be too long for a label.
const labelApprovedPlan = "placement.berth.dev/approved-plan"

// maxPartMoves is the number of moves in one ControllerRevision: 800 KB in base64. etcd takes 1.5 MB by default.
const maxPartMoves = 40_000

// PlanStore stores approved plans until they are carried out, as ControllerRevisions in Berth's own namespace. It is safe for
// concurrent use.
type PlanStore struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Namespace is the namespace of the ControllerRevisions.
	Namespace string
	// Owned sets an owner reference from a ControllerRevision to its policy, for garbage collection. Both must be in the same
	// cluster.
	Owned bool

	mu sync.Mutex
	// stored are the names of the policies whose plans may be stored.
	stored sets.Set[string]
}

// planPart is the data of a ControllerRevision: some moves of a plan.
type planPart struct {
	Policy string    `json:"policy"`
	UID    types.UID `json:"uid"`
	Digest string    `json:"digest"`
	Moves  []byte    `json:"moves"`
}

// storedPlan is the approved plan of a policy with a UID.
type storedPlan struct {
	uid  types.UID
	plan *remediation.ApprovedPlan
}

// load returns the stored plans by policy. A plan that can't be read is logged and left out.
func (s *PlanStore) load(ctx context.Context) (map[string]storedPlan, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace), client.HasLabels{labelApprovedPlan}); err != nil {
		return nil, fmt.Errorf("reading the approved plans: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	whole := map[string]planPart{}
	for _, revision := range list.Items {
		var part planPart
		if err := json.Unmarshal(revision.Data.Raw, &part); err != nil {
			ctrllog.FromContext(ctx).Info("An approved plan can't be read; its rest has to be approved again", "controllerrevision", revision.Name, "reason", err.Error())
			continue
		}
		part.Moves = append(whole[part.Policy].Moves, part.Moves...)
		whole[part.Policy] = part
	}
	out := map[string]storedPlan{}
	for name, p := range whole {
		s.remember(name, true)
		plan, err := remediation.DecodeApprovedPlan(p.Digest, p.Moves)
		if err != nil {
			ctrllog.FromContext(ctx).Info("An approved plan can't be read; its rest has to be approved again", "policy", name, "reason", err.Error())
			continue
		}
		out[name] = storedPlan{p.UID, plan}
	}
	return out, nil
}

// save stores the approved plan of a policy in place of an earlier one.
func (s *PlanStore) save(ctx context.Context, p *placementv1.PlacementPolicy, plan *remediation.ApprovedPlan) error {
	if err := s.remove(ctx, p.Name); err != nil {
		return err
	}
	s.remember(p.Name, true)
	part := int64(0)
	for moves := range slices.Chunk(plan.Encode(), maxPartMoves*remediation.MoveBytes) {
		part++
		text, err := json.Marshal(planPart{Policy: p.Name, UID: p.UID, Digest: plan.Digest, Moves: moves})
		if err != nil {
			return fmt.Errorf("encoding plan %s: %w", plan.Digest, err)
		}
		revision := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Namespace, Name: fmt.Sprintf("%s-plan-%d", policy.RevisionName(p.Name), part),
				Labels: map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth", labelApprovedPlan: policy.RevisionName(p.Name)},
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

// remove removes the plan of a policy, if one may be stored.
func (s *PlanStore) remove(ctx context.Context, policyName string) error {
	s.mu.Lock()
	stored := s.stored.Has(policyName)
	s.mu.Unlock()
	if !stored {
		return nil
	}
	list := &appsv1.ControllerRevisionList{}
	if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{labelApprovedPlan: policy.RevisionName(policyName)}); err != nil {
		return fmt.Errorf("reading the approved plan of PlacementPolicy %q: %w", policyName, err)
	}
	for i := range list.Items {
		if err := s.Client.Delete(ctx, &list.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the approved plan of PlacementPolicy %q: %w", policyName, err)
		}
	}
	s.remember(policyName, false)
	return nil
}

func (s *PlanStore) remember(policyName string, stored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !stored {
		s.stored.Delete(policyName)
		return
	}
	if s.stored == nil {
		s.stored = sets.New[string]()
	}
	s.stored.Insert(policyName)
}
