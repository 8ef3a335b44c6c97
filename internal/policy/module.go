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
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/rules"
)

// Module is a compiled and analysed policy, or the reference to the remote engine that decides it. It is immutable and
// safe for concurrent use.
type Module struct {
	// Remote is the remote engine that decides the policy; nil if spec.rego or spec.rules decide it. A policy with a remote engine has no
	// Compiler. It is assumed to have all contract rules and to read all of the input.
	Remote *Remote
	// Digest is the SHA-256 digest of the Rego and of everything else that Compiler depends on. It is empty for generated modules, and for
	// policies with a remote engine.
	Digest string
	// Compiler holds the compiled Rego and nothing else; nil for a policy with a remote engine.
	Compiler *ast.Compiler
	// Package is the package of the Rego, such as data.kubernetes.placement; nil for a policy with a remote engine.
	Package ast.Ref
	// Rules are the contract rules that the Rego defines, such as clusters, in the contract's order; all for a policy with a remote
	// engine.
	Rules []string
	// RestrictsPods reports whether the rule scheduling of the Rego may set anything but tolerations, preferences, and topology spread
	// constraints. A user gains nothing by creating a pod without those. It is false for a policy with a remote engine.
	RestrictsPods bool
	// Dependencies are what the Rego reads, and what spec.predicates reads.
	analysis.Dependencies
	// Candidates is spec.predicates.candidates: whether predicates check decisions against Nodes or Clusters; empty for none.
	Candidates placementv1.PredicateCandidates
	// Predicates are the names in spec.predicates.names; nil selects all of the manager's predicates.
	Predicates []string
	// Tolerant reports whether existing objects stay in clusters that their fleet managers mark as not ready. It is true if the policy has
	// spec.rules that give clusters.
	Tolerant bool
	// InputBytes is the size limit of the input of an evaluation (spec.limits), in bytes of JSON; 0 means no limit.
	InputBytes int
	// Text is the Rego that was compiled: spec.rego, or what spec.rules were rendered to. It is empty for generated modules,
	// and for policies with a remote engine.
	Text string
	// RegoVersion is the version of the language of Text: v1 for spec.rules; empty for generated modules, and for policies with a remote
	// engine.
	RegoVersion placementv1.RegoVersion
	// Static has the policy's own documents (spec.data); nil if it has none.
	Static ast.Object
	// Warnings are sentences on parts of the policy that are probably mistakes, each with its position in the Rego, or its field of
	// spec.rules, if it has one. Unless a remote engine decides, a policy with spec.strict is refused for each of them.
	Warnings []string
	// Findings are the parts of the Rego that have no effect, and reads of documents that spec.data lacks. Warnings covers them, too.
	Findings []lint.Finding
	// Unused are the rules of spec.rego that no contract rule uses; nil for a policy with spec.rules. Warnings does not contain them.
	Unused []lint.Finding

	// rules are spec.rules.
	rules    []placementv1.Rule
	rendered *rules.Module // the Rego that spec.rules were rendered to; nil if the policy has none
	// expressions keeps the CEL expressions of spec.rules compiled while this module is in use.
	expressions []*celexpression.Program
	// unit keeps the shared compilation alive in the weak cache while this module is in use.
	unit *compilation
}

// Diagnostic is one error in a policy's Rego or in another field of its spec.
type Diagnostic struct {
	File string
	// Row and Col are the position in File. They count from 1, and are 0 if the position is unknown, as in spec.data.
	Row, Col int
	Code     string // one of OPA's codes, or one of Berth's, such as berth_size_error; empty for an error in spec.rules
	Message  string
	// Field is the path of the invalid field, such as "spec.predicates.names[0]" or "spec.rules[0].require"; empty for spec.rego and
	// spec.data, whose errors have a File.
	Field string

	// rule is the error about a field of spec.rules; nil for other errors.
	rule *field.Error
}

// String returns "field: file:row:col: code: message". It omits the field and the parts of the position that are unknown. An error in
// spec.rules is "field: message".
func (d Diagnostic) String() string {
	if d.Field != "" {
		return d.Field + ": " + d.Detail()
	}
	return d.Detail()
}

// FieldError returns the diagnostic as an error about a field, of the form that the API server reports. An error in spec.rules is returned
// as it was found, and any other one has the type Invalid. The parameter rego is the path of the field with the Rego, which the error names
// if the diagnostic has no field.
func (d Diagnostic) FieldError(rego *field.Path) *field.Error {
	if d.rule != nil {
		return d.rule
	}
	return &field.Error{Type: field.ErrorTypeInvalid, Field: cmp.Or(d.Field, rego.String()),
		BadValue: field.OmitValueType{}, Detail: d.Detail()}
}

// Detail returns "file:row:col: code: message", without the parts of the position that are unknown, or the message alone of an error in
// spec.rules. It never has the field.
func (d Diagnostic) Detail() string {
	if d.rule != nil {
		return d.rule.ErrorBody()
	}
	place := d.File
	if d.Row > 0 {
		place += fmt.Sprintf(":%d:%d", d.Row, d.Col)
	}
	if place != "" {
		place += ": "
	}
	return place + d.Code + ": " + d.Message
}

// CompileError lists the errors in a policy.
type CompileError struct {
	Diagnostics []Diagnostic
}

// Error returns the diagnostics, one per line.
func (e *CompileError) Error() string {
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Codes of diagnostics that Berth adds; the others are OPA's.
const (
	codeContract  = "berth_contract_error"
	codeData      = "berth_data_error"
	codeAmbiguous = "berth_ambiguous_resource"
	codeNotServed = "berth_resource_not_served"
	codePredicate = "berth_predicate_error"
	codeWindow    = "berth_window_error"
)

// Compile parses, compiles, and analyses a policy. The parameter name is used as the file name in messages. An error is
// a *CompileError. If all its diagnostics concern clauses of contract rules that can never have a valid value, Compile also
// returns the module, whose warnings may explain them.
//
// Policies with equal Rego share the compilation for as long as one of their modules is in use.
func Compile(name string, spec placementv1.PlacementPolicySpec) (*Module, error) {
	if err := checkWindows(spec.Remediation.Windows); err != nil {
		return nil, err
	}
	if spec.Remote != nil {
		m, err := compileRemote(name, *spec.WithDefaults().Remote)
		if err != nil {
			return nil, err
		}
		m.InputBytes = int(spec.Limits.MaxInputBytes())
		if m.Remote.secretsOf(spec.Match); m.Remote.MatchesSecrets {
			m.Warnings = append(m.Warnings, "the policy matches secrets: the remote engine gets Secrets without data, stringData, and the "+
				"annotation "+corev1.LastAppliedConfigAnnotation)
		}
		return m, nil
	}
	if err := checkSize(name+".rego", spec); err != nil {
		return nil, err
	}
	rendered, ruleWarnings, err := render(&spec)
	if err != nil {
		return nil, err
	}
	text := spec.Rego
	if spec.Rego == "" && checksCandidates(spec) {
		spec.Rego = nothing
	}
	most := maxRules
	if rendered != nil {
		most = maxRenderedRules
	}
	u, err := compilationOf(spec, most)
	if err != nil {
		return nil, withFileName(name, withRuleFields(rendered, explainRecursion(err, spec)))
	}
	m := u.module
	m.unit, m.Warnings, m.Findings = u, slices.Clone(m.Warnings), slices.Clone(m.Findings)
	m.Text, m.RegoVersion, m.expressions = text, spec.RegoVersion, expressions(spec.Rules)
	if m.rules, m.rendered = spec.Rules, rendered; rendered != nil {
		// The author of rules can't change which Rego they are compiled to.
		m.Warnings, m.Unused = ruleWarnings, nil
		m.tolerateUnready()
	}
	if m.Static, err = staticData(name+".rego", spec, m.Package); err != nil {
		return nil, err
	}
	m.warn(u.report.EachEntry(m.Static))
	for i, w := range m.Warnings {
		m.Warnings[i] = WithFileName(name, w)
	}
	m.Warnings = m.WithoutRepetition(name, m.Warnings)
	m.InputBytes = int(spec.Limits.MaxInputBytes())
	m.usePredicates(spec.Predicates)
	findings, warning := lint.MissingData(m.Documents, m.Static)
	if m.Findings = append(m.Findings, findings...); warning != "" {
		m.Warnings = append(m.Warnings, warning)
	}
	if len(u.contract) > 0 {
		return &m, withFileName(name, withRuleFields(rendered, &CompileError{Diagnostics: u.contract}))
	}
	return &m, nil
}

// findRules sets Rules to the contract rules that the module defines, in the contract's order, and adds a warning if there are none. A
// contract rule with arguments is an error.
func (m *Module) findRules(file string, module *ast.Module) error {
	defined := language.RuleNames(module)
	for _, rule := range module.Rules {
		name := language.RuleName(rule)
		if slices.Contains(language.ContractRules, name) && len(rule.Head.Args) > 0 {
			return oneError(file, rule.Location, codeContract, fmt.Sprintf("%s is a function, but the decision contract requires a rule without "+
				"arguments", name))
		}
	}
	for _, name := range language.ContractRules {
		if defined[name] {
			m.Rules = append(m.Rules, name)
		}
	}
	if len(m.Rules) == 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("the package %s defines none of the rules %s: %s",
			m.Package, strings.Join(language.ContractRules, ", "), decidesNothing))
	}
	return nil
}

// DecidesNothing reports whether the policy can have no effect, because it has no contract rule and no candidates.
func (m *Module) DecidesNothing() bool { return len(m.Rules) == 0 && m.Candidates == "" }

// Schedules reports whether the policy may set scheduling fields of pods: its Rego has the rule scheduling, or a remote engine decides it.
func (m *Module) Schedules() bool { return slices.Contains(m.Rules, language.RuleScheduling) }

// decidesNothing is the end of the warning about a policy without contract rules.
const decidesNothing = "the policy decides nothing"

// staticData converts spec.data to an object; nil if there is none. It rejects data that is no object, and documents that would hide the
// rules in the package pkg or Berth's own documents.
func staticData(file string, spec placementv1.PlacementPolicySpec, pkg ast.Ref) (ast.Object, error) {
	if spec.Data == nil || len(spec.Data.Raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(spec.Data.Raw))
	decoder.UseNumber()
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return nil, oneError(file, nil, codeData, "spec.data: must be an object: "+err.Error())
	}
	for _, root := range language.Roots {
		if _, taken := document[root]; taken {
			return nil, oneError(file, nil, codeData, fmt.Sprintf("spec.data.%s: the name is taken: Berth keeps cluster data there", root))
		}
	}
	if shadowed(document, pkg) {
		return nil, oneError(file, nil, codeData, fmt.Sprintf(
			"spec.data: has a document at %s, where the policy's own rules are: rename the document or the package", pkg))
	}
	value, err := ast.InterfaceToValue(document)
	if err != nil {
		return nil, oneError(file, nil, codeData, "spec.data: "+err.Error())
	}
	object, _ := value.(ast.Object)
	return object, nil
}

// shadowed reports whether the document has a value at the package's path, or a value that is not an object on the way
// there.
func shadowed(document map[string]any, pkg ast.Ref) bool {
	var at any = document
	for _, term := range pkg[1:] {
		object, ok := at.(map[string]any)
		if !ok {
			return true
		}
		name, _ := term.Value.(ast.String)
		if at, ok = object[string(name)]; !ok {
			return false
		}
	}
	return true
}

// oneError returns an error with one diagnostic. at may be nil.
func oneError(file string, at *ast.Location, code, message string) *CompileError {
	return &CompileError{Diagnostics: []Diagnostic{diagnostic(file, at, code, message)}}
}

// errorOf returns the *CompileError for these diagnostics; nil if there are none.
func errorOf(wrong []Diagnostic) error {
	if len(wrong) == 0 {
		return nil
	}
	return &CompileError{Diagnostics: wrong}
}

// diagnostic returns a diagnostic with a message about a position in a file. at may be nil: then Row and Col are 0.
func diagnostic(file string, at *ast.Location, code, message string) Diagnostic {
	d := Diagnostic{File: file, Code: code, Message: message}
	if at != nil {
		d.Row, d.Col = at.Row, at.Col
	}
	return d
}

// checkPackage returns an error for a package that is, or is below, a document that Berth fills, such as data.clusters. It returns nil for
// all other packages, and for those below data.kubernetes, but not for data.kubernetes itself.
func checkPackage(file string, pkg *ast.Package) error {
	if root, _ := language.Part(pkg.Path, 1); !slices.Contains(language.Roots, root) || root == language.RootKubernetes && len(pkg.Path) != 2 {
		return nil
	}
	return oneError(file, pkg.Location, codeContract,
		fmt.Sprintf("the package %s is where Berth keeps cluster data: use another one, such as %s.placement", pkg.Path, language.RootKubernetes))
}

// compileError converts an error of OPA's parser or compiler, which may list several. It adds an explanation if a known function is not
// allowed in policies, or was renamed.
func compileError(file string, err error) *CompileError {
	var list ast.Errors
	if single, ok := errors.AsType[*ast.Error](err); ok {
		list = ast.Errors{single}
	} else if !errors.As(err, &list) {
		return oneError(file, nil, ast.ParseErr, err.Error())
	}
	out := &CompileError{}
	for _, e := range list {
		d := diagnostic(file, e.Location, e.Code, e.Message)
		if detail, ok := e.Details.(*ast.ParserErrorDetail); ok {
			d.Message += sourceLine(detail)
		}
		if name, known := language.Forbidden(e.Message); known {
			d.Message += fmt.Sprintf(" (%s is not allowed in a placement policy: decisions are pure functions of the object and the "+
				"replicated data)", name)
		}
		if _, name, found := strings.Cut(e.Message, "undefined function "); found {
			if today, renamed := language.RenamedBuiltin(name); renamed {
				d.Message += fmt.Sprintf(" (it was renamed: write %s)", today)
			}
		}
		out.Diagnostics = append(out.Diagnostics, d)
	}
	return out
}

// maxLine limits the source line in a message, in bytes on each side of the error.
const maxLine = 60

// sourceLine returns, after a line break, the part of the source line that is near a parser error and, on the next line, a caret below the
// position. Both lines are indented. Without a source line, the caret is alone.
func sourceLine(detail *ast.ParserErrorDetail) string {
	line, at := strings.ReplaceAll(detail.Line, "\t", " "), min(max(0, detail.Idx), len(detail.Line))
	if at > maxLine {
		line, at = line[at-maxLine:], maxLine
	}
	before := printable.Text(strings.ToValidUTF8(line[:at], "?"))
	after := printable.Text(strings.ToValidUTF8(line[at:min(len(line), at+maxLine)], "?"))
	return "\n\t" + before + after + "\n\t" + strings.Repeat(" ", utf8.RuneCountInString(before)) + "^"
}

// otherLanguage returns the error for Rego that does not parse in its policy's language version: wrong, or, if it parses in the other
// version, one error that says so.
func otherLanguage(regoVersion placementv1.RegoVersion, text string, wrong *CompileError) error {
	other, message := placementv1.RegoV0, "the text is Rego v0, as it was before OPA 1.0: set spec.regoVersion: v0, or rewrite it by opa "+
		"fmt --v0-v1 (the error as v1: %s)"
	if regoVersion == placementv1.RegoV0 {
		other, message = placementv1.RegoV1, "the text is Rego v1: remove spec.regoVersion: v0 (the error as v0: %s)"
	}
	if parsed, err := ParseRego(textFile, text, other); err != nil || parsed == nil {
		return wrong
	}
	first := wrong.Diagnostics[0]
	why, _, _ := strings.Cut(first.Message, "\n")
	first.Message = fmt.Sprintf(message, why)
	return &CompileError{Diagnostics: []Diagnostic{first}}
}

// explainRecursion adds an explanation to the recursion errors in a copy of err if a document in spec.data has the same name as the first
// part of the policy's package. Otherwise, it returns err.
func explainRecursion(err error, spec placementv1.PlacementPolicySpec) error {
	list, ok := errors.AsType[*CompileError](err)
	var document map[string]json.RawMessage
	if !ok || spec.Data == nil || json.Unmarshal(spec.Data.Raw, &document) != nil {
		return err
	}
	parsed, parseErr := ParseRego(textFile, spec.Rego, spec.RegoVersion)
	if parseErr != nil || parsed == nil {
		return err
	}
	root, _ := language.Part(parsed.Package.Path, 1)
	if _, collides := document[root]; !collides {
		return err
	}
	out := &CompileError{Diagnostics: slices.Clone(list.Diagnostics)}
	for i := range out.Diagnostics {
		if d := &out.Diagnostics[i]; d.Code == ast.RecursionErr {
			d.Message += fmt.Sprintf("; data.%s is both the policy's package (%s) and a document of spec.data, so that a reference to the document "+
				"reads the policy's own rules: rename the document or the package", root, parsed.Package.Path)
		}
	}
	return out
}

// explainUnsafe adds a hint, in wrong itself, to errors about unsafe variables that come from a name with slashes or hyphens but without
// brackets, or from a wildcard under not. Rego reads labels.example.com/team as a quotient and labels.cost-center as a difference.
func explainUnsafe(wrong *CompileError, parsed *ast.Module) *CompileError {
	for i := range wrong.Diagnostics {
		d := &wrong.Diagnostics[i]
		name, unsafe := strings.CutSuffix(strings.TrimPrefix(d.Message, "var "), " is unsafe")
		if d.Code != ast.UnsafeVarErr || !unsafe {
			continue
		}
		if meant := lint.NameInBrackets(parsed, d.Row, d.Col, ast.Var(name)); meant != nil {
			d.Message += fmt.Sprintf(": a name with slashes or hyphens needs brackets: write %s", meant)
		}
		if collection := lint.NegatedWildcard(parsed, d.Row, d.Col); name == "_" && collection != nil {
			d.Message += fmt.Sprintf(": not does not iterate over %[1]s: for any member, write some c in %[1]s before the expression; for all "+
				"members, write every c in %[1]s { not ... }; and write c in place of %[1]s[_]", collection)
		}
	}
	return wrong
}
