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

package placementmutator

import (
	"fmt"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
)

// refuseHolder returns why a request is denied whose labels or annotations have a multi-cluster system follow an object of another client,
// the holder, for an object that Berth delivers, and so carry it to other clusters than the decided ones; "" if they do not. A holder that
// the object had before the request is no reason.
func (h *Handler) refuseHolder(decoded *objects, outcome *placement.Outcome) string {
	if outcome.Object == nil {
		return ""
	}
	after, before := delivery.ObjectOf(decoded.obj.object), delivery.Object{}
	if decoded.old.object != nil {
		before = delivery.ObjectOf(decoded.old.object)
	}
	for _, v := range outcome.Verdicts {
		if v.Leaves {
			continue
		}
		for _, system := range delivery.SystemsOf(v.Policy, after.GroupKind()) {
			holder := system.TakenBy(before, after)
			if holder == "" || !h.Decider.Decided(outcome.Object, outcome.Object.GetNamespace()) {
				continue
			}
			return fmt.Sprintf("PlacementPolicy %q delivers the object, so that %s can't deliver it in %s, too: remove the labels and annotations "+
				"by which %[2]s claims the object, or exclude the object from spec.match of the PlacementPolicy", v.Policy.Name, holder, system.Title)
		}
	}
	return ""
}
