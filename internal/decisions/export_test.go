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

package decisions

import (
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// Members returns the objects whose last recorded decision includes the policy.
func (g *Groups) Members(p *placement.Policy) []remediation.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	if in == nil {
		return nil
	}
	out := []remediation.Key{}
	for _, group := range in.groups {
		out = append(out, group.keys()...)
	}
	return append(out, in.rest.keys()...)
}
