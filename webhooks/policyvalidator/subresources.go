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

package policyvalidator

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
)

// Scales finds the field of an object that its scale subresource sets.
type Scales interface {
	// ReplicasPath returns the path of the field. ok is false if the path is not known.
	ReplicasPath(ctx context.Context, resource schema.GroupVersionResource) (path []string, ok bool, err error)
}

// warnOfSubresources warns about subresources that change fields that the policy reads without a decision by Berth.
func (v *Validator) warnOfSubresources(ctx context.Context, m *match.Matcher, module *policy.Module) admission.Warnings {
	decision := module.Input
	if module.Remote != nil {
		decision = projection.AllFields()
	}
	var out admission.Warnings
	reads := m.FieldsRead(decision)
	if match.MayReadScale(reads) {
		for _, resource := range v.Catalog.Scalable(m.SelectsResource) {
			warning := v.warnOfScale(ctx, resource)
			if warning != "" && !slices.Contains(out, warning) {
				out = append(out, warning)
			}
		}
	}
	if names, some := reads.MemberNames(); some && slices.Contains(names, "status") {
		out = append(out, "the policy reads status, and Berth is not asked about writes of the status subresource: "+
			"remediation finds objects that a new status makes violations")
	}
	return out
}

// warnOfScale returns the reason why requests for the scale of a resource are not decided, or "" if they are.
func (v *Validator) warnOfScale(ctx context.Context, resource schema.GroupVersionResource) string {
	_, known, err := v.Scales.ReplicasPath(ctx, resource)
	switch {
	case err != nil:
		return fmt.Sprintf("whether kubectl scale of %s is decided by this policy is not known: %v", resource.GroupResource(), err)
	case !known:
		return fmt.Sprintf("kubectl scale of %s is not decided by this policy: no CustomResourceDefinition names the field that the scale "+
			"subresource sets. Restrict who may update %s/scale", resource.GroupResource(), resource.Resource)
	default:
		return ""
	}
}
