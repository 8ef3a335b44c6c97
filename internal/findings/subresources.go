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

package findings

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
)

// findingsOfSubresources finds changes of fields that the policy reads without a decision by Berth, whatever spec.match has: those by the
// scale subresource of matched types of which it is not known which field that sets, and those by the status subresource, if the policy
// reads status.
func (f *Finder) findingsOfSubresources(ctx context.Context, m *match.Matcher, module *policy.Module) []Finding {
	decision := module.Input
	if module.Remote != nil {
		decision = projection.AllFields()
	}
	var out []Finding
	reads := m.FieldsRead(decision)
	if match.MayReadScale(reads) {
		for _, resource := range f.Catalog.Scalable(m.SelectsResource) {
			found := f.scaleFinding(ctx, resource)
			if found.Message != "" && !slices.Contains(out, found) {
				out = append(out, found)
			}
		}
	}
	if names, some := reads.MemberNames(); some && slices.Contains(names, "status") {
		out = append(out, advice("the policy reads status, and no webhook of Berth receives writes of the status subresource: "+
			"only remediation finds an object that becomes a violation by a new status"))
	}
	return out
}

// scaleFinding returns a finding for a resource with a scale subresource: an advice if no CustomResourceDefinition says which field that
// sets, so that requests for the subresource are not decided, or a notice if that can't be read. Otherwise, they are decided, and the
// message is empty.
func (f *Finder) scaleFinding(ctx context.Context, resource schema.GroupVersionResource) Finding {
	_, known, err := f.Scales.ReplicasPath(ctx, resource)
	switch {
	case err != nil:
		return notice("can't tell whether this policy decides kubectl scale of %s: %v", resource.GroupResource(), err)
	case !known:
		return advice("kubectl scale of %s is not decided by this policy: no CustomResourceDefinition names the field that the scale "+
			"subresource sets. Restrict who may update %s/scale", resource.GroupResource(), resource.Resource)
	default:
		return Finding{}
	}
}
