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

package match_test

import (
	"testing"

	"github.com/berth-dev/berth/internal/match"
)

// TestFailsOnCreate checks which conditions fail when an object is created.
func TestFailsOnCreate(t *testing.T) {
	for expression, want := range map[string]bool{
		`object.spec.replicas != oldObject.spec.replicas`:                                         true,
		`oldObject.spec.replicas != object.spec.replicas`:                                         true,
		`(object.metadata.labels.app == 'a') && (object.spec.replicas > oldObject.spec.replicas)`: true,
		`object.metadata.labels.app == 'a' || object.spec.replicas > oldObject.spec.replicas`:     true,
		`!(object.metadata.labels['app'] == oldObject.metadata.labels['app'])`:                    true,
		`oldObject.spec.template.spec.containers.all(c, c.image != 'a')`:                          true,
		`object.spec.image in [oldObject.spec.image, 'a']`:                                        true,
		`request.operation == 'UPDATE' || object.spec != oldObject.spec`:                          true,
		`request.operation == 'CREATE' && object.spec != oldObject.spec`:                          true,
		`oldObject.spec.replicas > 1`:                                                             true,
		`has(oldObject.spec.replicas) && object.spec != oldObject.spec`:                           true,
		`object.spec.paused ? oldObject.spec.paused : oldObject.spec.replicas > 1`:                false,
		`oldObject == null || object.spec.replicas != oldObject.spec.replicas`:                    false,
		`oldObject != null && object.spec.replicas != oldObject.spec.replicas`:                    false,
		`object.spec.replicas != oldObject.spec.replicas && oldObject != null`:                    false,
		`object.spec.replicas != oldObject.spec.replicas && request.operation == 'UPDATE'`:        false,
		`request.operation in ['UPDATE'] && object.spec != oldObject.spec`:                        false,
		`request.operation != 'CREATE' && object.spec != oldObject.spec`:                          false,
		`request.operation == 'CREATE' || object.spec != oldObject.spec`:                          false,
		`has(request.oldObject) && request.oldObject != null && object.spec != oldObject.spec`:    false,
		`has(oldObject.spec) && object.spec != oldObject.spec`:                                    false,
		`object.spec.replicas != oldObject.?spec.?replicas.orValue(0)`:                            false,
		`oldObject == null ? true : object.spec.replicas != oldObject.spec.replicas`:              false,
		`object.metadata.generation > 1 && object.spec != oldObject.spec`:                         false,
		`request.userInfo.username == 'a' && object.spec != oldObject.spec`:                       false,
		`object.spec.names.exists(n, n == 'a') && object.spec != oldObject.spec`:                  false,
		`object.?spec.?replicas.orValue(oldObject.spec.replicas) > 1`:                             false,
		`(oldObject != null && oldObject.metadata.name == 'a') || object.spec.replicas > 1`:       false,
		`oldObject == null`:                   false,
		`object.metadata.name == 'oldObject'`: false,
		`object.spec.replicas > 1`:            false,
		`oldObject.`:                          false,
	} {
		if got := match.FailsOnCreate(t.Context(), expression); got != want {
			t.Errorf("%s: got %v, want %v", expression, got, want)
		}
	}
}
