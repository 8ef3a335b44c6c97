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

package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/weakcache"
)

// textFile is the file name of every policy's Rego during compilation. Messages replace it with the policy's own file
// name.
const textFile = "<policy>.rego"

// compilation is what results from the Rego of a policy alone: the compiled and analysed Rego, errors about values that the contract rules
// can never have, and warnings. All policies with the same Rego share it. There is none for Rego that does not compile.
type compilation struct {
	// module has the results that depend only on the Rego, and none of what Compile adds, such as Static and Candidates.
	module Module
	// contract has the errors about clauses of contract rules that can never have a valid value.
	contract []Diagnostic
	// report has the parts of the Rego that are probably mistakes.
	report *lint.Report
}

// units caches the compilation of each distinct Rego while a policy uses it or compiles it.
var units weakcache.Cache[compilation]

// compilationOf returns the compilation of a policy's Rego. Policies with the same Rego and language version share it, if all or none of
// them have spec.replicate, and most is the same: the maximum number of rules. An error is a *CompileError with the file name textFile.
func compilationOf(spec placementv1.PlacementPolicySpec, most int) (*compilation, error) {
	// The key covers everything that influences the compilation.
	v0, listed := spec.RegoVersion == placementv1.RegoV0, len(spec.Replicate) > 0
	covered := fmt.Appendf(nil, "%t %t %s", v0, listed, spec.Rego)
	if most != maxRules {
		covered = fmt.Appendf(covered, " %d", most)
	}
	sum := sha256.Sum256(covered)
	digest := hex.EncodeToString(sum[:])
	return units.Get(digest, func() (*compilation, error) {
		u, err := newCompilation(spec.RegoVersion, spec.Rego, listed, most)
		if err != nil {
			return nil, err
		}
		u.module.Digest = digest
		return u, nil
	})
}

// newCompilation compiles and analyses a policy's Rego. It is an error if the Rego reads a resource type that is known only at evaluation,
// unless listed reports that spec.replicate is set, or if it has more than most rules. An error is a *CompileError with the file name
// textFile. Contract rules without a valid value are no error, but in the field contract.
func newCompilation(regoVersion placementv1.RegoVersion, text string, listed bool, most int) (*compilation, error) {
	parsed, err := ParseRego(textFile, text, regoVersion)
	if wrong, ok := errors.AsType[*CompileError](err); ok {
		return nil, otherLanguage(regoVersion, text, wrong)
	}
	if parsed == nil {
		return nil, oneError(textFile, nil, ast.ParseErr, "the Rego has no package declaration")
	}
	if err := checkBounds(textFile, parsed, most); err != nil {
		return nil, err
	}
	compiler := newPolicyCompiler(regoVersion)
	if compiler.Compile(map[string]*ast.Module{textFile: parsed}); compiler.Failed() {
		return nil, explainUnsafe(compileError(textFile, compiler.Errors), parsed)
	}
	if err := checkPackage(textFile, parsed.Package); err != nil {
		return nil, err
	}
	u := &compilation{module: Module{Compiler: compiler, Package: parsed.Package.Path}}
	m, module := &u.module, compiler.Modules[textFile]
	if err := m.findRules(textFile, module); err != nil {
		return nil, err
	}
	m.RestrictsPods = restrictsPods(parsed)
	if m.Dependencies, err = analysis.Analyse(compiler, module, m.Rules, listed); err != nil {
		return nil, compileError(textFile, err)
	}
	v0 := regoVersion == placementv1.RegoV0
	u.report = lint.Check(parsed, module, compiler.Graph, v0)
	m.Findings, m.Unused = u.report.NoEffect, u.report.Unused
	if m.warn(u.report.Warnings); v0 {
		slices.Sort(m.Warnings)
		m.Warnings = slices.Compact(m.Warnings)
	}
	u.contract = m.checkContract(module, &contractChecker{v0: v0})
	return u, nil
}

// warn adds findings to the warnings, with their positions in textFile.
func (m *Module) warn(findings []lint.Finding) {
	for _, f := range findings {
		m.Warnings = append(m.Warnings, fmt.Sprintf("%s:%d:%d: %s", textFile, f.Row, f.Col, f.Message))
	}
}

// WithFileName replaces the placeholder file name in a message with name and .rego. name is that of the policy.
func WithFileName(name, message string) string {
	return strings.ReplaceAll(message, textFile, name+".rego")
}

// withFileName replaces the placeholder file name, in a copy of a *CompileError, with that of the policy of a name. Other callers may have
// received the same error.
func withFileName(name string, err error) error {
	list, ok := errors.AsType[*CompileError](err)
	if !ok {
		return err
	}
	out := &CompileError{Diagnostics: slices.Clone(list.Diagnostics)}
	for i := range out.Diagnostics {
		d := &out.Diagnostics[i]
		d.File, d.Message = WithFileName(name, d.File), WithFileName(name, d.Message)
	}
	return out
}
