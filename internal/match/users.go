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

package match

import (
	"context"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// conditionEnvironment is the CEL environment with object, oldObject, and request, each of any type. It lacks the variable authorizer: an
// expression that has it does not compile.
var conditionEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType),
		},
	})
	if err != nil {
		return nil, err
	}
	return set.Env(environment.StoredExpressions)
})

// partialProgram compiles a match condition, or a part of one, for evaluations in which some variables are unknown.
func partialProgram(expression string) (cel.Program, error) {
	env, err := conditionEnvironment()
	if err != nil {
		return nil, err
	}
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	return env.Program(compiled, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(celconfig.PerCallLimit),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency))
}

// fieldsOfRequests are the fields of a request that differ between the requests of one user.
var fieldsOfRequests = []string{
	"dryRun", "kind", "name", "namespace", "object", "oldObject", "operation", "options", "requestKind",
	"requestResource", "requestSubResource", "resource", "subResource", "uid",
}

// ExcludesUser reports whether a match condition is false for each request of a user, whatever the object, and not for those of every user.
// It returns false if that is not certain, and for a condition that does not compile, fails, or calls the authorizer.
func ExcludesUser(ctx context.Context, expression, username string, groups []string) bool {
	if !strings.Contains(expression, "userInfo") {
		return false
	}
	program, err := partialProgram(expression)
	if err != nil {
		return false
	}
	isFalse := func(known map[string]any, unknown ...*cel.AttributePatternType) bool {
		variables, err := cel.PartialVars(known, unknown...)
		if err != nil {
			return false
		}
		result, _, err := program.ContextEval(ctx, variables)
		return err == nil && result.Value() == false
	}
	unknown := []*cel.AttributePatternType{cel.AttributePattern("object"), cel.AttributePattern("oldObject")}
	if isFalse(nil, append(unknown, cel.AttributePattern("request"))...) {
		// It is false for each user.
		return false
	}
	for _, name := range fieldsOfRequests {
		unknown = append(unknown, cel.AttributePattern("request").QualString(name))
	}
	user := map[string]any{"username": username, "groups": groups, "uid": "", "extra": map[string]any{}}
	return isFalse(map[string]any{"request": map[string]any{"userInfo": user}}, unknown...)
}
