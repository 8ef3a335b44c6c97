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

import "sync"

// Pauses is the set of policies whose remediation is paused. The zero value is empty. It is safe for concurrent use.
type Pauses struct{ names sync.Map }

// Set records whether remediation of a policy is paused.
func (p *Pauses) Set(policy string, paused bool) {
	if !paused {
		p.names.Delete(policy)
		return
	}
	p.names.Store(policy, true)
}

// Paused reports whether remediation of a policy is paused.
func (p *Pauses) Paused(policy string) bool {
	_, paused := p.names.Load(policy)
	return paused
}
