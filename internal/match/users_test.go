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

// TestExcludesUser checks which conditions are false for each request of Berth.
func TestExcludesUser(t *testing.T) {
	const username = "system:serviceaccount:berth-system:berth-controller-manager"
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:berth-system", "system:authenticated"}
	for expression, want := range map[string]bool{
		`request.userInfo.username == 'ci'`:                                                                true,
		`request.userInfo.username in ['ci', 'cd'] && object.spec.replicas > 1`:                            true,
		`object.metadata.name.startsWith('a') && request.userInfo.username == 'ci'`:                        true,
		`!request.userInfo.username.startsWith('system:')`:                                                 true,
		`'developers' in request.userInfo.groups`:                                                          true,
		`request.userInfo.groups.exists(g, g == 'developers')`:                                             true,
		`request.operation == 'CREATE' && request.userInfo.username == 'ci'`:                               true,
		`request.userInfo.username != 'ci'`:                                                                false,
		`!('system:masters' in request.userInfo.groups)`:                                                   false,
		`request.userInfo.username.startsWith('system:serviceaccount:')`:                                   false,
		`request.userInfo.username == '` + username + `'`:                                                  false,
		`request.userInfo.username == 'ci' || object.metadata.name == 'a'`:                                 false,
		`request.userInfo.username == object.metadata.name`:                                                false,
		`request.userInfo.username == 'ci' || request.operation == 'UPDATE'`:                               false,
		`request.operation == 'CREATE'`:                                                                    false,
		`has(request.userInfo.username) && request.userInfo.username == 'ci' && 1 > 2`:                     false,
		`authorizer.group('apps').resource('deployments').check('delete').allowed() && request.userInfo.u`: false,
		`request.userInfo.username ==`:                                                                     false,
		`has(request.userInfo.extra.x) && request.userInfo.extra.x[0] == 'a'`:                              true,
	} {
		if got := match.ExcludesUser(t.Context(), expression, username, groups); got != want {
			t.Errorf("%s: got %v, want %v", expression, got, want)
		}
	}
}
