package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// opinion is the part of a verdict that Digest is over.
type opinion struct {
	Policy string           `json:"policy"`
	Mode   placementv1.Mode `json:"mode"`
	// Failed is the failure policy of a policy that could not decide. Why it could not is left out: errors name
	// addresses and durations, which differ where the decision does not.
	Failed      placementv1.FailurePolicy `json:"failed,omitempty"`
	Annotations map[string]string         `json:"annotations,omitempty"`
	Labels      map[string]string         `json:"labels,omitempty"`
	Scheduling  map[string]string         `json:"scheduling,omitempty"`
	Clusters    []string                  `json:"clusters,omitzero"`
	Errors      []string                  `json:"errors,omitempty"`
	Warnings    []string                  `json:"warnings,omitempty"`
}

// Digest names what the policies decided, as "sha256:" and 64 hexadecimal digits, or "" where none matched. Equal
// decisions have equal digests on every replica and at any time, whatever text of the policies led to them. Decisions
// have different ones if they differ in the policies, their order of precedence, their modes, whether one failed, or
// anything that one of them says.
func (o *Outcome) Digest() string {
	if len(o.Verdicts) == 0 {
		return ""
	}
	opinions := make([]opinion, len(o.Verdicts))
	for i, v := range o.Verdicts {
		opinions[i] = opinion{Policy: v.Policy.Name, Mode: v.Policy.Mode}
		if v.Err != nil {
			opinions[i].Failed = v.Policy.FailurePolicy
			continue
		}
		d := &v.Decision
		opinions[i].Annotations, opinions[i].Labels, opinions[i].Scheduling, opinions[i].Clusters = d.Annotations, d.Labels, d.Scheduling, d.Clusters
		opinions[i].Errors, opinions[i].Warnings = d.Errors, d.Warnings
	}
	// Keys come out sorted. Marshalling can't fail: there is nothing but strings.
	text, _ := json.Marshal(opinions)
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
