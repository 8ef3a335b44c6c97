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
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/policy"
)

// warnOfDelivery warns about spec.delivery that has no effect.
func (v *Validator) warnOfDelivery(spec placementv1.PlacementPolicySpec, module *policy.Module, path *field.Path) admission.Warnings {
	if spec.Delivery == nil {
		return nil
	}
	var out admission.Warnings
	if mode := spec.WithDefaults().Mode; mode != placementv1.ModeEnforce {
		out = append(out, fmt.Sprintf("%s has no effect in mode %s: nothing is delivered before mode is Enforce", path, mode))
	}
	if !givesClusters(module) {
		out = append(out, fmt.Sprintf("%s: the policy has no rule clusters, so it delivers only objects that other policies give clusters", path))
	}
	for _, system := range delivery.Systems(spec.Delivery) {
		for _, kind := range system.Kinds {
			if _, served := v.Catalog.Exact(kind.GroupVersionResource); !served {
				out = append(out, fmt.Sprintf("%s: the API server does not serve %s in version %s: nothing is delivered to %s before its CRDs are installed",
					path.Child(system.Name), kind.GroupResource(), kind.Version, system.Title))
				break
			}
		}
	}
	return out
}
