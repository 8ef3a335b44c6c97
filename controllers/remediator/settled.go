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

package remediator

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/remediation"
)

// Settled reports whether the ledger has a decision on every existing object that a policy in force matches. It does not
// wait for types that can't be read. It is false until this replica is the leader and watches the types.
func (c *Controller) Settled() bool {
	if c.Resuming() {
		return false
	}
	for _, p := range c.Registry.InForce() {
		state := c.MatchedState(p)
		if !state.Synced && state.Err == nil || !c.objects.allRecorded(c.matched.ofPolicy(p)) {
			return false
		}
	}
	return true
}

// UID returns the UID of an existing object that a policy matches; "" if there is none.
func (c *Controller) UID(key remediation.Key) types.UID {
	if object, _ := c.objects.get(key); object != nil {
		return object.GetUID()
	}
	return ""
}
