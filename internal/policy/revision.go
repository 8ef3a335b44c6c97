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

package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Revision is a version of a PlacementPolicy that compiled: its generation, its spec, and the API groups that its plural names were bound
// to. Berth stores it outside the policy. A replica that starts while the policy's newest version does not compile can then decide like the
// other replicas.
type Revision struct {
	// UID is the policy's UID. It tells a policy apart from an earlier, deleted one of the same name.
	UID        types.UID                       `json:"uid"`
	Generation int64                           `json:"generation"` // the generation of the policy with this spec
	Spec       placementv1.PlacementPolicySpec `json:"spec"`
	// Bindings are the API groups that references by plural name alone were bound to; nil if there are none.
	Bindings Bindings `json:"bindings,omitempty"`
}

// sameRego reports whether two specs have the same Rego, rules, and language version. Nothing else counts, such as spec.data.
func sameRego(a, b placementv1.PlacementPolicySpec) bool {
	return a.Rego == b.Rego && cmp.Or(a.RegoVersion, placementv1.RegoV1) == cmp.Or(b.RegoVersion, placementv1.RegoV1) &&
		equality.Semantic.DeepEqual(a.Rules, b.Rules)
}

// RevisionName returns the name of the ControllerRevision that stores the last version of a policy that was in force everywhere. It uses a
// digest, because a policy's name may have the maximum length already and can't take a prefix.
func RevisionName(policy string) string {
	sum := sha256.Sum256([]byte(policy))
	return "placementpolicy-" + hex.EncodeToString(sum[:10])
}

// NumberedRevisionName returns the name of the ControllerRevision that stores a version of a policy that comes into force in stages:
// RevisionName, a hyphen, and number. number is the generation in which the version first was in the spec.
func NumberedRevisionName(policy string, number int64) string {
	return RevisionName(policy) + "-" + strconv.FormatInt(number, 10)
}

// EncodeRevision returns the stored form of a revision, in JSON.
func EncodeRevision(r Revision) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding revision: %w", err)
	}
	return text, nil
}

// DecodeRevision decodes the JSON of EncodeRevision.
func DecodeRevision(text []byte) (Revision, error) {
	var r Revision
	if err := json.Unmarshal(text, &r); err != nil {
		return Revision{}, fmt.Errorf("decoding revision: %w", err)
	}
	return r, nil
}

// SameRegoAndReplicate reports whether two specs have the same Rego or rules, language version, and spec.replicate.
func SameRegoAndReplicate(a, b placementv1.PlacementPolicySpec) bool {
	return sameRego(a, b) && slices.Equal(a.Replicate, b.Replicate)
}
