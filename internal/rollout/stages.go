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
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Stages are the compiled stages of a policy's rollout. They are immutable and safe for concurrent use.
type Stages struct {
	policy string
	list   []stage
}

// stage selects namespaces, of which percent are in the stage.
type stage struct {
	namespaces labels.Selector
	percent    int
}

// NewStages compiles the stages of a policy. Errors have the field's path below path. The result is never nil. A stage with an
// invalid selector selects no namespace.
func NewStages(policy string, stages []placementv1.RolloutStage, path *field.Path) (*Stages, field.ErrorList) {
	out, errs := &Stages{policy: policy, list: make([]stage, len(stages))}, field.ErrorList(nil)
	for i, s := range stages {
		out.list[i] = stage{namespaces: labels.Nothing(), percent: int(s.Percent)}
		if s.NamespaceSelector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(s.NamespaceSelector)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("namespaceSelector"), s.NamespaceSelector, err.Error()))
			continue
		}
		out.list[i].namespaces = selector
	}
	return out, errs
}

// Len returns the number of stages.
func (s *Stages) Len() int { return len(s.list) }

// Of returns the index of the stage that a namespace belongs to, the first one that selects it. It returns Len for a namespace
// that no stage selects, and for objects without a namespace, whose name is empty.
func (s *Stages) Of(namespace string, l map[string]string) int {
	for i := range s.list {
		if s.Selects(i, namespace, l) {
			return i
		}
	}
	return s.Len()
}

// Selects reports whether a stage selects a namespace, even if the namespace belongs to an earlier stage.
func (s *Stages) Selects(stage int, namespace string, l map[string]string) bool {
	at := s.list[stage]
	return namespace != "" && (at.percent > 0 && share(s.policy, namespace) < at.percent || at.namespaces.Matches(labels.Set(l)))
}

// SelectsAll reports whether a stage selects all namespaces.
func SelectsAll(s placementv1.RolloutStage) bool {
	return s.Percent >= 100 || s.NamespaceSelector != nil && len(s.NamespaceSelector.MatchLabels)+len(s.NamespaceSelector.MatchExpressions) == 0
}

// share returns a number from 0 to 99 that depends only on the names of the policy and the namespace. The name of the policy
// makes different policies begin with different namespaces.
func share(policy, namespace string) int {
	sum := sha256.Sum256([]byte(policy + "/" + namespace))
	return int(binary.BigEndian.Uint64(sum[:8]) % 100)
}

// VersionDigest identifies the version in a spec: all of the spec but rollout and remediation.
func VersionDigest(spec placementv1.PlacementPolicySpec) string {
	spec = spec.WithDefaults()
	spec.Remediation, spec.Rollout = placementv1.Remediation{}, nil
	return digest(spec)
}

// Effective returns the spec by which a version decides, with defaults: version, with those parts of the newest spec that are not
// versioned and apply at once.
func Effective(version, newest placementv1.PlacementPolicySpec) placementv1.PlacementPolicySpec {
	version, newest = version.WithDefaults(), newest.WithDefaults()
	version.Remediation, version.Rollout = newest.Remediation, newest.Rollout
	return version
}

// Digest identifies the rollout of the version in a spec: the version, and the namespaces of each stage.
func Digest(spec placementv1.PlacementPolicySpec) string {
	var namespaces []placementv1.RolloutStage
	if spec.Rollout != nil {
		for _, s := range spec.Rollout.Stages {
			namespaces = append(namespaces, placementv1.RolloutStage{Name: s.Name, NamespaceSelector: s.NamespaceSelector, Percent: s.Percent})
		}
	}
	return VersionDigest(spec) + "-" + digest(namespaces)
}

func digest(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		// Data is the only part that a client formats. The API server refuses data that are not JSON.
		text = []byte(err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// stagesOf returns the stages in a digest of a rollout.
func stagesOf(digest string) string {
	_, stages, _ := strings.Cut(digest, "-")
	return stages
}

// versionOf returns the version in a digest of a rollout.
func versionOf(digest string) string {
	version, _, _ := strings.Cut(digest, "-")
	return version
}
