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

package projection_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/projection"
)

func TestDifferences(t *testing.T) {
	labels := projection.Fields("metadata.labels.level", "metadata.labels.zone", "spec.taints.**")
	for name, tc := range map[string]struct {
		fields *projection.FieldSet
		a, b   string
		limit  int
		want   []string
		more   bool
	}{
		"Equal":      {labels, `{"metadata": {"labels": {"level": "3", "other": "a"}}}`, `{"metadata": {"labels": {"level": "3", "other": "b"}}}`, 5, nil, false},
		"Changed":    {labels, `{"metadata": {"labels": {"level": "3"}}}`, `{"metadata": {"labels": {"level": "1"}}}`, 5, []string{`metadata/labels/level: "3" "1"`}, false},
		"Added":      {labels, `{}`, `{"metadata": {"labels": {"level": "1"}}}`, 5, []string{`metadata/labels/level: <nil> "1"`}, false},
		"Removed":    {labels, `{"metadata": {"labels": {"level": "1"}}}`, `{"metadata": {}}`, 5, []string{`metadata/labels/level: "1" <nil>`}, false},
		"Array":      {labels, `{"spec": {"taints": [{"key": "a"}]}}`, `{"spec": {"taints": [{"key": "b"}]}}`, 5, []string{`spec/taints: [{"key": "a"}] [{"key": "b"}]`}, false},
		"Kinds":      {projection.AllFields(), `{"a": {"b": 1}}`, `{"a": 2}`, 5, []string{`a: {"b": 1} 2`}, false},
		"Whole":      {projection.AllFields(), `{"b": 1, "a": {"c": true}}`, `{"b": 2, "a": {"c": null}}`, 5, []string{`a/c: true null`, `b: 1 2`}, false},
		"EmptyAdded": {projection.AllFields(), `{}`, `{"a": {}}`, 5, []string{`a: <nil> {}`}, false},
		"Limit":      {projection.AllFields(), `{"a": 1, "b": 1, "c": 1}`, `{"a": 2, "b": 2, "c": 2}`, 2, []string{"a: 1 2", "b: 1 2"}, true},
		"AtLimit":    {projection.AllFields(), `{"a": 1, "b": 1}`, `{"a": 2, "b": 2}`, 2, []string{"a: 1 2", "b: 1 2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			found, more := tc.fields.Seal().Differences(ast.MustParseTerm(tc.a).Value, ast.MustParseTerm(tc.b).Value, tc.limit)
			var got []string
			for _, d := range found {
				got = append(got, fmt.Sprintf("%s: %v %v", strings.Join(d.Path, "/"), d.From, d.To))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || more != tc.more {
				t.Errorf("more: %t; differences (-want +got):\n%s", more, diff)
			}
		})
	}
}
