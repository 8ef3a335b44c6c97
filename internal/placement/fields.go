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
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// FieldsRead returns the fields of matched objects on which the policy's decisions depend: all if it has match conditions, which may read
// any. It adds none for the rest of spec.match, such as labels.
func (p *Policy) FieldsRead() *projection.FieldSet {
	if p.Matcher.Conditional() {
		return projection.AllFields()
	}
	return p.Evaluator.Input()
}

// FieldsRead returns the sealed set of the fields, besides labels and annotations, that are read of objects of a type to decide them by
// policies whose match rules select the type. If recorded is true, that includes the scheduling fields although no policy may set them,
// because objects may have a record of such fields.
func (d *Decider) FieldsRead(resource schema.GroupResource, policies []*Policy, recorded bool) *projection.FieldSet {
	sets, schedules := []*projection.FieldSet{FollowFields(resource)}, recorded
	for _, p := range policies {
		schedules = schedules || p.Schedules
		if reads := p.FieldsRead(); !slices.Contains(sets, reads) {
			sets = append(sets, reads)
		}
	}
	if path, ok := d.Templates.Path(resource); ok && schedules {
		sets = append(sets, SchedulingFields(path))
	}
	if kind := d.ClusterLists.Of(resource); kind != nil {
		sets = append(sets, kind.Fields())
	}
	return projection.Union(sets...)
}
