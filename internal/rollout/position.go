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

package rollout

import (
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Position is the part of a rollout's status by which replicas decide. The zero value stands for no status.
type Position struct {
	// Digest identifies the rollout, and Revision its version.
	Digest   string
	Revision int64
	// Reached is the number of stages in which the version decides. Complete reports whether it decides everywhere.
	Reached  int
	Complete bool
	// Previous is the revision that decides where the version does not; 0 for none.
	Previous int64
	// rolledBack reports whether spec.rollout.revision selected the version.
	rolledBack bool
}

// PositionOf returns the position in a status, which may be nil.
func PositionOf(s *placementv1.RolloutStatus) Position {
	if s == nil {
		return Position{}
	}
	return Position{
		Digest: s.Digest, Revision: s.Revision, Previous: s.PreviousRevision, Reached: int(ptr.Deref(s.Reached, 0)),
		Complete: s.State == placementv1.RolloutComplete, rolledBack: s.State == placementv1.RolloutRolledBack,
	}
}

// IsSingle reports whether a single version is in force everywhere.
func (p Position) IsSingle() bool { return p.Complete || p.rolledBack }

// Concerns reports whether the position is that of a rollout, given its digest. The stages of a complete rollout do not matter.
func (p Position) Concerns(digest string) bool {
	switch {
	case p.Digest == "" || p.rolledBack:
		return false
	case p.Complete:
		return versionOf(p.Digest) == versionOf(digest)
	default:
		return p.Digest == digest
	}
}

// IsOfStages reports whether the position is that of a rollout that is not complete, with the stages in the digest of a rollout.
func (p Position) IsOfStages(digest string) bool {
	return p.Digest != "" && !p.IsSingle() && stagesOf(p.Digest) == stagesOf(digest)
}

// Everywhere returns the revision that was in force everywhere last; 0 if there was none.
func (p Position) Everywhere() int64 {
	if p.IsSingle() {
		return p.Revision
	}
	return p.Previous
}

// Version returns the digest of the version that was in force everywhere last; empty if the position does not have it.
func (p Position) Version() string {
	if p.IsSingle() {
		return versionOf(p.Digest)
	}
	return ""
}
