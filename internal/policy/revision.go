package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Revision is a version of a PlacementPolicy that compiled. It is kept outside the policy, so that a replica that
// starts while the policy's newest version does not compile decides as the others do.
type Revision struct {
	// UID is the policy's: a policy that was deleted and created again has no past.
	UID        types.UID                       `json:"uid"`
	Generation int64                           `json:"generation"`
	Spec       placementv1.PlacementPolicySpec `json:"spec"`
	// Bindings are the API groups that the text's references by plural name alone were bound to. Revisions of older
	// versions of Berth have none.
	Bindings Bindings `json:"bindings,omitempty"`
}

// SameTextAndData reports whether two specs have the same text, in the same language and with the same data.
func SameTextAndData(a, b placementv1.PlacementPolicySpec) bool {
	return a.Rego == b.Rego && cmp.Or(a.RegoVersion, placementv1.RegoV1) == cmp.Or(b.RegoVersion, placementv1.RegoV1) && equality.Semantic.DeepEqual(a.Data, b.Data)
}

// RevisionName is the name of the object that keeps a policy's revision. It fits where a policy's own name, which may
// be as long as a name can be, with a prefix would not.
func RevisionName(policy string) string {
	sum := sha256.Sum256([]byte(policy))
	return "placementpolicy-" + hex.EncodeToString(sum[:10])
}

// EncodeRevision returns the revision as it is kept.
func EncodeRevision(r Revision) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding revision: %w", err)
	}
	return text, nil
}

// DecodeRevision reads a revision as it is kept.
func DecodeRevision(text []byte) (Revision, error) {
	var r Revision
	if err := json.Unmarshal(text, &r); err != nil {
		return Revision{}, fmt.Errorf("decoding revision: %w", err)
	}
	return r, nil
}

// SameText reports whether two versions of a policy have the same text, and the same references to the cluster's data.
func SameText(a, b placementv1.PlacementPolicySpec) bool {
	return a.Rego == b.Rego && cmp.Or(a.RegoVersion, placementv1.RegoV1) == cmp.Or(b.RegoVersion, placementv1.RegoV1) && slices.Equal(a.Replicate, b.Replicate)
}
