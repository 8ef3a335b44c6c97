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

package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// The type that a snapshot declares.
const (
	SnapshotAPIVersion = "config.berth.dev/v1alpha1"
	SnapshotKind       = "ClusterSnapshot"
)

// Snapshot is a file with the served types and those objects of a cluster on which decisions depend. It has no Options: with the same ones,
// decisions on it equal those in the cluster when it was recorded.
type Snapshot struct {
	metav1.TypeMeta `json:",inline"`
	// Discovery has the types that the cluster served.
	Discovery Discovery `json:"discovery"`
	// Objects are the policies, their stored revisions that decide, and all objects of the types that they read or may match. Objects of all
	// types but policies, revisions, and inventories have only the fields that policies read, and their identity, labels, annotations, and
	// number of replicas. Secrets have no payload.
	Objects []map[string]any `json:"objects"`
}

// Snapshot records that part of the simulation's cluster on which decisions depend. served has the types that it serves, from discovery.
func (s *Simulation) Snapshot(ctx context.Context, served Discovery) (*Snapshot, error) {
	out := &Snapshot{TypeMeta: metav1.TypeMeta{APIVersion: SnapshotAPIVersion, Kind: SnapshotKind}, Discovery: served}
	fields := s.snapshotFields()
	for _, resource := range slices.SortedFunc(maps.Keys(fields), compareResources) {
		objects, err := s.cluster.List(ctx, resource, fields[resource])
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			kept := obj.DeepCopy()
			if keep := keptFields(fields[resource]); keep != nil {
				kept.Object = keep.Project(kept.Object)
			}
			replication.Strip(resource.GroupResource(), kept)
			out.Objects = append(out.Objects, kept.Object)
		}
	}
	// If a policy matches ControllerRevisions, these replace the ones with only some fields.
	for _, revision := range s.revisionObjects {
		out.Objects = append(out.Objects, revision.DeepCopy().Object)
	}
	return out, nil
}

// snapshotFields returns the types that a snapshot has, and the fields of their objects; nil for all fields. Policies and inventories have
// all fields. Other types that policies or predicates read, and types that policies may match, have the fields that are read, and the
// latter also spec.replicas. Namespaces are there if decisions or stages depend on their labels.
func (s *Simulation) snapshotFields() fieldsByType {
	inventories := s.cluster.Catalog().Inventories().Resources()
	out := fieldsByType{placementv1.GroupVersion.WithResource("placementpolicies"): nil}
	add := func(resource schema.GroupVersionResource, fields *projection.FieldSet) {
		before, known := out[resource]
		switch {
		case known && before == nil, fields == nil, slices.Contains(inventories, resource):
			// The normal form of a cluster derives from fields that no policy names.
			out[resource] = nil
		case known:
			out[resource] = projection.Union(before, fields)
		default:
			out[resource] = fields
		}
	}
	for resource, fields := range s.union(func(b *policy.Binding) fieldsByType { return b.Fields }) {
		add(resource, fields)
	}
	for resource, fields := range s.union(func(b *policy.Binding) fieldsByType { return b.PredicateReads }) {
		add(resource, fields)
	}
	for _, resource := range s.cluster.Catalog().Select(s.selects) {
		add(resource.GroupVersionResource, s.inputFields(resource.GroupVersionResource))
		// How many replicas an object has where it is placed.
		add(resource.GroupVersionResource, replicaFields)
	}
	// Without a rollout, the stages of a policy tell where a change of it comes into force first.
	if s.needsNamespaces() || slices.ContainsFunc(s.policies, func(p *Policy) bool { return p.Object.Spec.Rollout != nil }) {
		add(corev1.SchemeGroupVersion.WithResource("namespaces"), (&projection.FieldSet{}).Seal())
	}
	return out
}

// replicaFields are the fields with the number of replicas of an object.
var replicaFields = projection.Fields("spec.replicas")

// compareResources compares two types by a text of their group, version, and plural name in this order, so that the core types come first.
func compareResources(a, b schema.GroupVersionResource) int {
	return strings.Compare(a.String(), b.String())
}

// DecodeSnapshot decodes a snapshot from uncompressed JSON. An error says that the text is no snapshot, has unknown or repeated fields, or
// has another apiVersion, which an incompatible version of Berth may write.
func DecodeSnapshot(text []byte) (*Snapshot, error) {
	out := &Snapshot{}
	unknown, err := json.UnmarshalStrict(text, out)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a snapshot, or a damaged one: %w", err)
	case out.Kind != SnapshotKind || out.APIVersion != SnapshotAPIVersion:
		return nil, fmt.Errorf("apiVersion is %q and kind is %q, must be %s and %s: record it again with this version of the plugin",
			out.APIVersion, out.Kind, SnapshotAPIVersion, SnapshotKind)
	case len(unknown) > 0:
		return nil, fmt.Errorf("the snapshot is damaged: %w", errors.Join(unknown...))
	case slices.Contains(out.Discovery.Groups, nil) || slices.Contains(out.Discovery.Resources, nil):
		return nil, errors.New("the snapshot is damaged: discovery has an empty entry")
	}
	return out, nil
}

// Cluster returns the recorded cluster. inventories are the types whose objects represent clusters.
func (s *Snapshot) Cluster(inventories *replication.Inventories) (*Static, error) {
	objects := make([]*unstructured.Unstructured, len(s.Objects))
	for i, obj := range s.Objects {
		objects[i] = &unstructured.Unstructured{Object: obj}
	}
	out, err := NewStatic(s.Discovery, inventories, objects...)
	if err != nil {
		return nil, err
	}
	out.fromSnapshot = true
	return out, nil
}
