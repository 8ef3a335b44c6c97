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
	"sync"

	"github.com/berth-dev/berth/internal/containment"
)

// Pauses says for which policies remediation is paused, and in which namespaces, as this replica knows it from the status of the policies.
// The zero value is empty. It is safe for concurrent use.
type Pauses struct {
	// scopes has the containment.Scope of the pause of each paused policy, by name of the policy.
	scopes sync.Map
}

// Set records that remediation of a policy is paused in the namespaces of a scope; everywhere if the scope is empty.
func (p *Pauses) Set(policy string, scope containment.Scope) { p.scopes.Store(policy, scope) }

// Delete records that remediation of a policy is not paused.
func (p *Pauses) Delete(policy string) { p.scopes.Delete(policy) }

// Paused reports whether remediation of a policy is paused for the objects of a namespace.
func (p *Pauses) Paused(policy, namespace string) bool {
	scope, paused := p.scopes.Load(policy)
	return paused && scope.(containment.Scope).Includes(namespace)
}
