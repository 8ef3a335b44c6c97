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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// digestEntry is the part of a verdict on which Digest depends.
type digestEntry struct {
	Policy string           `json:"policy"` // The name of the policy.
	Mode   placementv1.Mode `json:"mode"`
	// Failed is the failure policy of a policy that could not decide; "" if it decided. The error itself is left out: errors contain
	// addresses and durations, which vary between equal outcomes.
	Failed placementv1.FailurePolicy `json:"failed,omitempty"`
	Decision
}

// Digest returns an identifier of what the policies decided: "sha256:" and 64 hexadecimal digits, or "" if no policy matched. It depends on
// the policies' names, their order of precedence, their modes, which of them failed, and their complete decisions. Equal decisions have
// equal digests on every replica and at any time, even if the policies' modules differ.
func (o *Outcome) Digest() string {
	if len(o.Verdicts) == 0 {
		return ""
	}
	opinions := make([]digestEntry, len(o.Verdicts))
	for i, v := range o.Verdicts {
		opinions[i] = digestEntry{Policy: v.Policy.Name, Mode: v.Policy.Mode}
		if v.Err != nil {
			opinions[i].Failed = v.Policy.FailurePolicy
		} else {
			opinions[i].Decision = v.Decision
		}
	}
	// Maps are encoded with sorted keys. Marshaling does not fail: all values are strings.
	text, _ := json.Marshal(opinions)
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
