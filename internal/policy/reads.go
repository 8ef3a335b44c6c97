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
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/suggest"
)

// Read is a resource type as a policy's Rego names it.
type Read struct {
	// Plural is the resource's plural name; empty for Clusters and Quotas.
	Plural string
	// GroupVersion is set for references of the form data.resources["<group>/<version>"].<plural>.
	GroupVersion string
	// Listed is set in Binding.Missing for types that spec.replicate lists. Group is then the API group.
	Listed bool
	Group  string
	// Clusters reports whether the read is data.clusters, the normal form of every inventory.
	Clusters bool
	// Quotas is "quotas" or "clusterquotas" for data.berth.<quotas>, the limits and the usage of quotas.
	Quotas string
	// Row and Col are the position of the first reference. Both count from 1.
	Row, Col int
	// Note is set in Binding.Missing if the policy is bound to a group that no longer serves the type. It names that
	// group, and the other groups that may serve the type instead.
	Note string
}

// String returns the reference as it is written in Rego. For a type that spec.replicate lists, it returns the name of the
// type, such as deployments.apps.
func (r Read) String() string {
	switch {
	case r.Listed:
		return schema.GroupResource{Group: r.Group, Resource: r.Plural}.String()
	case r.Clusters:
		return "data." + rootClusters
	case r.Quotas != "":
		return "data." + rootBerth + "." + r.Quotas
	case r.GroupVersion != "":
		return fmt.Sprintf("data.%s[%q].%s", rootResources, r.GroupVersion, r.Plural)
	default:
		return fmt.Sprintf("data.%s.%s", rootKubernetes, r.Plural)
	}
}

// Explained returns the reference as it is written in Rego, followed by its note.
func (r Read) Explained() string {
	if r.Note == "" {
		return r.String()
	}
	return r.String() + ", " + r.Note
}

// KeyedRead is a reference by constant keys to objects of a type, or to one object.
type KeyedRead struct {
	Read
	// First is the first key below the type: the namespace if the type is namespaced. Second is the next key; empty if
	// there is none, or if it is not constant.
	First, Second string
}

// String returns the reference with its keys, as it may be written in Rego.
func (k KeyedRead) String() string {
	if k.Second == "" {
		return fmt.Sprintf("%s[%q]", k.Read, k.First)
	}
	return fmt.Sprintf("%s[%q][%q]", k.Read, k.First, k.Second)
}

func compareReads(x, y Read) int { return cmp.Compare(x.String(), y.String()) }

// analyser collects the cluster data that a compiled module can read.
//
// The analysis is sound because a compiled module reaches base documents only through references that start with
// `data`. The compiler has resolved imports and aliases of packages, and a variable that holds a part of `data` got it
// from such a reference. The analysis follows each reference up to the first part that is known only at evaluation. A
// reference that has not named a resource type by then reads an unknown set of types and is rejected.
type analyser struct {
	file    string
	pkg     ast.Ref
	rules   map[string]bool
	dynamic bool
	reads   map[Read]Read
	keyed   map[string]KeyedRead
	static  map[string][]*ast.Location
	errs    []Diagnostic
}

// analyse finds the resource types that the module reads. It also returns the references to documents that Berth does
// not provide, keyed by document name. If listed is true, references to unknown resource types are accepted.
func (m *Module) analyse(file string, module *ast.Module, listed bool) (static map[string][]*ast.Location, err error) {
	a := &analyser{
		file: file, pkg: m.Package, rules: ruleNames(module), dynamic: listed,
		reads: map[Read]Read{}, keyed: map[string]KeyedRead{}, static: map[string][]*ast.Location{},
	}
	for _, rule := range module.Rules {
		ast.WalkRefs(rule, func(ref ast.Ref) bool {
			a.visit(ref)
			return false
		})
	}
	if len(a.errs) > 0 {
		return nil, &CompileError{Diagnostics: a.errs}
	}
	for _, read := range a.reads {
		m.Reads = append(m.Reads, read)
	}
	slices.SortFunc(m.Reads, compareReads)
	for _, name := range slices.Sorted(maps.Keys(a.keyed)) {
		m.Keyed = append(m.Keyed, a.keyed[name])
	}
	return a.static, nil
}

// findMissingData adds findings and a warning for top-level documents that the module reads and that spec.data lacks.
func (m *Module) findMissingData(read map[string][]*ast.Location) {
	var missing []string
	present := m.documents()
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if m.Static == nil || m.Static.Get(ast.StringTerm(name)) == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return
	}
	// A document that the Rego already reads under its own name is not a candidate for a misspelt name.
	candidates := slices.DeleteFunc(slices.Clone(present), func(name string) bool { return read[name] != nil })
	if len(missing)*len(candidates) > maxComparedNames {
		candidates = nil
	}
	for _, name := range missing {
		message := missingData([]string{name}, present, candidates)
		for _, at := range read[name] {
			if at != nil {
				m.Findings = append(m.Findings, Finding{Row: at.Row, Col: at.Col, Message: message, Undefined: true})
			}
		}
	}
	m.Warnings = append(m.Warnings, missingData(missing, present, candidates))
}

// Limits on the documents of spec.data that messages name.
const (
	maxNamed         = 5
	maxNameLength    = 64
	maxComparedNames = 10_000
)

// documents returns the sorted names of the documents in spec.data. It omits names longer than maxNameLength.
func (m *Module) documents() []string {
	var out []string
	if m.Static == nil {
		return nil
	}
	m.Static.Foreach(func(key, _ *ast.Term) {
		if name, ok := key.Value.(ast.String); ok && len(name) <= maxNameLength {
			out = append(out, string(name))
		}
	})
	slices.Sort(out)
	return out
}

// missingData returns a message that spec.data lacks the missing documents. It lists the documents that are present,
// and the candidates that are probably meant.
func missingData(missing, present, candidates []string) string {
	layout := oldLayout(missing)
	message := fmt.Sprintf("the policy reads data.%s, which spec.data does not have%s", strings.Join(missing, ", data."), layout)
	if len(present) == 0 || layout != "" {
		return message
	}
	message += "; it has " + strings.Join(present[:min(len(present), maxNamed)], ", ")
	if more := len(present) - maxNamed; more > 0 {
		message += fmt.Sprintf(", and %d more", more)
	}
	var meant []string
	for _, name := range missing {
		if near, ok := suggest.Nearest(name, candidates); ok {
			meant = append(meant, "data."+near)
		}
	}
	if len(meant) > 0 {
		message += fmt.Sprintf("; did you mean %s?", strings.Join(meant, ", "))
	}
	return message
}

// oldLayout explains where Berth keeps the data that OPA for Kubernetes federation kept at data.io. It returns "" if
// "io" is not among the names.
func oldLayout(names []string) string {
	if !slices.Contains(names, "io") {
		return ""
	}
	return fmt.Sprintf("; Berth keeps clusters at data.%s[name] and objects of the cluster at data.%s.<plural>", rootClusters, rootKubernetes)
}

func (a *analyser) visit(ref ast.Ref) {
	if ref.Equal(FeasibleClusters.Ref()) {
		a.add(ref, Read{Clusters: true})
		return
	}
	if !ref.HasPrefix(ast.DefaultRootRef) {
		return
	}
	if a.ownRule(ref) {
		return
	}
	root, ok := part(ref, 1)
	if !ok {
		a.unresolved(ref, "data")
		return
	}
	switch root {
	case rootKubernetes:
		a.readResource(ref, "", 2)
	case rootResources:
		groupVersion, ok := part(ref, 2)
		if !ok {
			a.unresolved(ref, "data."+root)
			return
		}
		if _, err := schema.ParseGroupVersion(groupVersion); err != nil {
			a.fail(ref, codeRead, fmt.Sprintf("%s: %v", ref, err))
			return
		}
		a.readResource(ref, groupVersion, 3)
	case rootClusters:
		a.add(ref, Read{Clusters: true})
	case rootBerth:
		name, ok := part(ref, 2)
		if _, known := quotaResources[name]; !ok || !known {
			a.fail(ref, codeRead, fmt.Sprintf("%s: Berth keeps data.%s.%s[namespace][name] and data.%s.%s[name] there, and nothing else",
				ref, rootBerth, quotas, rootBerth, clusterQuotas))
			return
		}
		a.add(ref, Read{Quotas: name})
		a.addKeyed(ref, Read{Quotas: name}, 3)
	default:
		if !ref.HasPrefix(a.pkg) {
			a.static[root] = append(a.static[root], ref[0].Location)
		}
	}
}

// ownRule reports whether the reference is to a rule or function of the module.
func (a *analyser) ownRule(ref ast.Ref) bool {
	if !ref.HasPrefix(a.pkg) {
		return false
	}
	name, ok := part(ref, len(a.pkg))
	return ok && a.rules[name]
}

func (a *analyser) readResource(ref ast.Ref, groupVersion string, at int) {
	plural, ok := part(ref, at)
	if !ok {
		a.unresolved(ref, ref[:at].String())
		return
	}
	read := Read{Plural: plural, GroupVersion: groupVersion}
	a.add(ref, read)
	a.addKeyed(ref, read, at+1)
}

// addKeyed records the constant keys of a reference. The parameter at is the index of the first key.
func (a *analyser) addKeyed(ref ast.Ref, read Read, at int) {
	first, ok := part(ref, at)
	if !ok {
		return
	}
	keyed := KeyedRead{Read: read, First: first}
	keyed.Second, _ = part(ref, at+1)
	name := keyed.String()
	if _, seen := a.keyed[name]; seen {
		return
	}
	if loc := ref[0].Location; loc != nil {
		keyed.Row, keyed.Col = loc.Row, loc.Col
	}
	a.keyed[name] = keyed
}

func (a *analyser) add(ref ast.Ref, read Read) {
	if _, seen := a.reads[read]; seen {
		return
	}
	located := read
	if loc := ref[0].Location; loc != nil {
		located.Row, located.Col = loc.Row, loc.Col
	}
	a.reads[read] = located
}

// unresolved handles a reference that reads all of prefix. It is an error unless spec.replicate lists the types.
func (a *analyser) unresolved(ref ast.Ref, prefix string) {
	if a.dynamic {
		return
	}
	a.fail(ref, codeRead, fmt.Sprintf("%s reads resource types that only evaluation knows (all of %s): name the type in the policy's text, or list the types under spec.replicate", ref, prefix))
}

func (a *analyser) fail(ref ast.Ref, code, message string) {
	a.errs = append(a.errs, oneError(a.file, ref[0].Location, code, message).Diagnostics...)
}

// part returns the reference's i-th part. The result is false if the part is missing or is not a constant string.
func part(ref ast.Ref, i int) (string, bool) {
	if i >= len(ref) {
		return "", false
	}
	name, ok := ref[i].Value.(ast.String)
	return string(name), ok
}
