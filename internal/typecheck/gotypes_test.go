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

package typecheck_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/open-policy-agent/opa/v1/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/typecheck"
)

// TestTypeOf checks the types of fields of kinds that are given as Go types.
func TestTypeOf(t *testing.T) {
	const first = json.Number("0")
	anything := types.NewObject(nil, types.NewDynamicProperty(types.S, types.A))
	deployment, pod := typecheck.TypeOf(reflect.TypeFor[*appsv1.Deployment]()), typecheck.TypeOf(reflect.TypeFor[*corev1.Pod]())
	for name, tc := range map[string]struct {
		of   types.Type
		path []any
		want types.Type // Nil if the type has no such field.
	}{
		"Kind":     {deployment, []any{"kind"}, types.S},
		"Number":   {deployment, []any{"spec", "replicas"}, types.N},
		"Unknown":  {deployment, []any{"spec", "replica"}, nil},
		"Labels":   {deployment, []any{"metadata", "labels", "a"}, types.S},
		"Template": {deployment, []any{"spec", "template", "spec", "containers", first, "image"}, types.S},
		"Either":   {deployment, []any{"spec", "strategy", "rollingUpdate", "maxSurge"}, types.NewAny(types.N, types.S)},
		"Inline":   {pod, []any{"spec", "volumes", first, "configMap", "name"}, types.S},
		"Boolean":  {pod, []any{"spec", "hostNetwork"}, types.B},
		"Time":     {pod, []any{"status", "startTime"}, types.NewAny(types.S, types.Nl)},
		"Empty":    {pod, []any{"spec", "volumes", first, "emptyDir", "medium"}, types.S},
		"Bytes":    {typecheck.TypeOf(reflect.TypeFor[corev1.Secret]()), []any{"data", "a"}, types.S},
		"Itself":   {typecheck.TypeOf(reflect.TypeFor[recursive]()), []any{"next"}, types.A},
		"NoFields": {typecheck.TypeOf(reflect.TypeFor[struct{}]()), nil, anything},
	} {
		got := tc.of
		for _, name := range tc.path {
			if got = types.Select(got, name); got == nil {
				break
			}
		}
		if (got == nil) != (tc.want == nil) || got != nil && types.Compare(got, tc.want) != 0 {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

type recursive struct {
	Next *recursive `json:"next"`
}
