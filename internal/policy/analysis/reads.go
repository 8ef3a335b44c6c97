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

package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy/language"
)

// Read is a resource type as a policy's Rego names it.
type Read struct {
	// Plural is the resource's plural name; empty for Clusters and Quotas.
	Plural string
	// GroupVersion is the group and version of a reference of the form data.resources["<group>/<version>"].<plural>; empty for all other
	// references, such as data.kubernetes.<plural>.
	GroupVersion string
	// Listed is true only in Binding.Missing, for types that spec.replicate or spec.remote.replicate lists.
	Listed bool
	Group  string // the API group if Listed is true
	// Clusters reports whether the read is data.clusters, the normal form of every inventory, or
	// data.berth.ambiguousclusters, which follows from the same objects.
	Clusters bool
	// Quotas is "quotas" or "clusterquotas" for data.berth.<quotas>, the limits and the usage of quotas.
	Quotas string
	// Row and Col are the position of the first reference. Both count from 1.
	Row, Col int
	// Note is set only in Binding.Missing. If the policy is bound to a group that no longer serves the type, it names that group, and the
	// other groups that may serve the type instead. For Clusters, it names the inventories.
	Note string
}

// String returns the read as it may be written in Rego, without keys: data.kubernetes.<plural>,
// data.resources["<group>/<version>"].<plural>, data.clusters, data.berth.quotas, or data.berth.clusterquotas. For a type that
// spec.replicate lists, it returns the name of the type, such as deployments.apps.
func (r Read) String() string {
	switch {
	case r.Listed:
		return schema.GroupResource{Group: r.Group, Resource: r.Plural}.String()
	case r.Clusters:
		return "data." + language.RootClusters
	case r.Quotas != "":
		return "data." + language.RootBerth + "." + r.Quotas
	case r.GroupVersion != "":
		return fmt.Sprintf("data.%s[%q].%s", language.RootResources, r.GroupVersion, r.Plural)
	default:
		return fmt.Sprintf("data.%s.%s", language.RootKubernetes, r.Plural)
	}
}

// Path returns the names that lead from `data` to the objects of the read. Below them, the objects are keyed by namespace, if they have
// one, and by name.
func (r Read) Path() []string {
	switch {
	case r.Clusters:
		return []string{language.RootClusters}
	case r.Quotas != "":
		return []string{language.RootBerth, r.Quotas}
	case r.GroupVersion != "":
		return []string{language.RootResources, r.GroupVersion, r.Plural}
	default:
		return []string{language.RootKubernetes, r.Plural}
	}
}

// Explained returns the text of String, followed by a comma and the note if there is one.
func (r Read) Explained() string {
	if r.Note == "" {
		return r.String()
	}
	return r.String() + ", " + r.Note
}

// KeyedRead is a reference by constant keys to objects of a type, or to one object. Findings compare its keys with the namespaces and
// quotas that there are. The type is replicated as a whole all the same.
type KeyedRead struct {
	Read
	// First is the first key below the type: the namespace if the type is namespaced, or else the name. Second is the next key; empty if there
	// is none, or if it is not constant.
	First, Second string
}

// String returns the reference with its keys, as it may be written in Rego, such as data.kubernetes.pods["a"]["b"].
func (k KeyedRead) String() string {
	if k.Second == "" {
		return fmt.Sprintf("%s[%q]", k.Read, k.First)
	}
	return fmt.Sprintf("%s[%q][%q]", k.Read, k.First, k.Second)
}

// ByPluralAlone reports whether the read names a type by its plural name alone, as data.kubernetes.<plural> does. Several groups may serve
// types with that name. It does not take Listed into account, which is false in every read of a policy's Rego.
func (r Read) ByPluralAlone() bool {
	return !r.Clusters && r.Quotas == "" && r.GroupVersion == ""
}

func compareReads(x, y Read) int { return cmp.Compare(x.String(), y.String()) }

// analyser collects the resource types that a compiled module can read, and its references to other documents of `data`. It does not look
// at the input, nor at which fields of the objects are read: fieldAnalyser finds these.
//
// The analysis is sound because a compiled module reaches base documents only through references that start with
// `data`. The compiler has resolved imports and aliases of packages, and a variable that holds a part of `data` got it
// from such a reference. The analysis follows each reference up to the first part that is known only at evaluation. A
// reference that has not named a resource type by then reads an unknown set of types and is rejected, unless spec.replicate lists the
// types.
type analyser struct {
	pkg ast.Ref // the package of the module
	// rules are the names of the module's own rules.
	rules   map[string]bool
	dynamic bool // whether spec.replicate lists types, so that a type may be known only at evaluation; otherwise that is an error
	// reads are the reads so far, by the read without its position.
	reads map[Read]Read
	keyed map[string]KeyedRead // the references by constant keys, by their texts
	// documents are the references to top-level documents that Berth does not provide, by the name of the document.
	documents map[string][]*ast.Location
	errs      ast.Errors
}

// analyseReads sets Reads, Keyed, and Documents: the resource types that the module reads, and its references to other documents. A
// reference to a resource type that is unknown before evaluation is an error, unless listed is true. An invalid group or version, or an
// unknown name below data.berth, always is one. An error is an ast.Errors.
func (d *Dependencies) analyseReads(module *ast.Module, listed bool) error {
	a := &analyser{
		pkg: module.Package.Path, rules: language.RuleNames(module), dynamic: listed,
		reads: map[Read]Read{}, keyed: map[string]KeyedRead{}, documents: map[string][]*ast.Location{},
	}
	for _, rule := range module.Rules {
		ast.WalkRefs(rule, func(ref ast.Ref) bool {
			a.visit(ref)
			return false
		})
	}
	if len(a.errs) > 0 {
		return a.errs
	}
	d.Reads = slices.SortedFunc(maps.Values(a.reads), compareReads)
	for _, name := range slices.Sorted(maps.Keys(a.keyed)) {
		d.Keyed = append(d.Keyed, a.keyed[name])
	}
	d.Documents = a.documents
	return nil
}

// visit adds what a reference reads.
func (a *analyser) visit(ref ast.Ref) {
	if ref.Equal(language.FeasibleClusters.Ref()) {
		a.add(ref, Read{Clusters: true})
		return
	}
	if !ref.HasPrefix(ast.DefaultRootRef) {
		return
	}
	if a.ownRule(ref) {
		return
	}
	root, ok := language.Part(ref, 1)
	if !ok {
		a.unresolved(ref, "data")
		return
	}
	switch root {
	case language.RootKubernetes:
		a.readResource(ref, "", 2)
	case language.RootResources:
		groupVersion, ok := language.Part(ref, 2)
		if !ok {
			a.unresolved(ref, "data."+root)
			return
		}
		if _, err := schema.ParseGroupVersion(groupVersion); err != nil {
			a.fail(ref, fmt.Sprintf("%s: %v", ref, err))
			return
		}
		a.readResource(ref, groupVersion, 3)
	case language.RootClusters:
		a.add(ref, Read{Clusters: true})
	case language.RootBerth:
		name, _ := language.Part(ref, 2)
		if name == language.AmbiguousClusters {
			a.add(ref, Read{Clusters: true})
			return
		}
		if _, known := language.QuotaResource(name); !known {
			a.fail(ref, fmt.Sprintf("%s: below data.%[2]s are only data.%[2]s.%[3]s[namespace][name], data.%[2]s.%[4]s[name], and "+
				"data.%[2]s.%[5]s[name]", ref, language.RootBerth, language.Quotas, language.ClusterQuotas, language.AmbiguousClusters))
			return
		}
		a.add(ref, Read{Quotas: name})
		a.addKeyed(ref, Read{Quotas: name}, 3)
	default:
		if !ref.HasPrefix(a.pkg) {
			a.documents[root] = append(a.documents[root], ref[0].Location)
		}
	}
}

// ownRule reports whether the reference is to a rule or a function of the module itself.
func (a *analyser) ownRule(ref ast.Ref) bool {
	if !ref.HasPrefix(a.pkg) {
		return false
	}
	name, ok := language.Part(ref, len(a.pkg))
	return ok && a.rules[name]
}

// readResource adds the read of a resource type whose plural name is the part of the reference at the index at, with the constant keys
// below it. If that part is not constant, the type is known only at evaluation; see unresolved.
func (a *analyser) readResource(ref ast.Ref, groupVersion string, at int) {
	plural, ok := language.Part(ref, at)
	if !ok {
		a.unresolved(ref, ref[:at].String())
		return
	}
	read := Read{Plural: plural, GroupVersion: groupVersion}
	a.add(ref, read)
	a.addKeyed(ref, read, at+1)
}

// addKeyed records the constant keys of a reference: the one at the index at, and the next one if that is constant, too. It records nothing
// if the first one is not.
func (a *analyser) addKeyed(ref ast.Ref, read Read, at int) {
	first, ok := language.Part(ref, at)
	if !ok {
		return
	}
	keyed := KeyedRead{Read: read, First: first}
	keyed.Second, _ = language.Part(ref, at+1)
	name := keyed.String()
	if _, seen := a.keyed[name]; seen {
		return
	}
	if loc := ref[0].Location; loc != nil {
		keyed.Row, keyed.Col = loc.Row, loc.Col
	}
	a.keyed[name] = keyed
}

// add adds a read, with the position of the reference if the read is new.
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

// unresolved handles a reference that may read everything below prefix. It adds an error, unless the policy lists the types that it reads:
// then it does nothing.
func (a *analyser) unresolved(ref ast.Ref, prefix string) {
	if a.dynamic {
		return
	}
	a.fail(ref, fmt.Sprintf("%s reads resource types that are known only at evaluation (all of %s): name the type in the policy's "+
		"text, or list the types under spec.replicate", ref, prefix))
}

// fail adds an error about a reference.
func (a *analyser) fail(ref ast.Ref, message string) {
	a.errs = append(a.errs, &ast.Error{Code: codeRead, Location: ref[0].Location, Message: message})
}
