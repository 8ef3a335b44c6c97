package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Read is a resource type as a policy's text names it.
type Read struct {
	// Plural is the resource's plural name; empty for Clusters and Quotas.
	Plural string
	// GroupVersion is set where the text says data.resources["<group>/<version>"].<plural>.
	GroupVersion string
	// Clusters stands for data.clusters, the normal form of every inventory.
	Clusters bool
	// Quotas stands for data.berth.<quotas>, what quotas limit and what is used of them.
	Quotas string
	// Row and Col are the place of the first mention.
	Row, Col int
}

// String is the read as the text writes it.
func (r Read) String() string {
	switch {
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

func compareReads(x, y Read) int { return cmp.Compare(x.String(), y.String()) }

// analyser collects what a compiled module can read of the cluster's data.
//
// It is sound because a compiled module reaches base documents through references that start with `data` and through
// nothing else: the compiler has resolved imports and aliases of packages, and a variable that holds a part of `data`
// got it from such a reference. A reference is followed to its first part that only evaluation knows; one that stops
// before it has named a resource type reads an unknown set of them and is refused.
type analyser struct {
	file    string
	pkg     ast.Ref
	rules   map[string]bool
	dynamic bool
	reads   map[Read]Read
	static  map[string]bool
	errs    []Diagnostic
}

// analyse finds what the module reads, and returns the names of the documents among it that Berth does not keep.
func (m *Module) analyse(file string, module *ast.Module, listed bool) (static []string, err error) {
	a := &analyser{
		file: file, pkg: m.Package, rules: ruleNames(module), dynamic: listed,
		reads: map[Read]Read{}, static: map[string]bool{},
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
	return slices.Sorted(maps.Keys(a.static)), nil
}

// warnOfMissingData names top-level documents that the text reads and that spec.data does not have.
func (m *Module) warnOfMissingData(read []string) {
	var missing []string
	for _, name := range read {
		if m.Static == nil || m.Static.Get(ast.StringTerm(name)) == nil {
			missing = append(missing, "data."+name)
		}
	}
	if len(missing) > 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("the policy reads %s, which spec.data does not have", strings.Join(missing, ", ")))
	}
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
	default:
		if !ref.HasPrefix(a.pkg) {
			a.static[root] = true
		}
	}
}

// ownRule says whether the reference is to a rule or function of the module.
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
	a.add(ref, Read{Plural: plural, GroupVersion: groupVersion})
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

// unresolved handles a reference that reads all of prefix.
func (a *analyser) unresolved(ref ast.Ref, prefix string) {
	if a.dynamic {
		return
	}
	a.fail(ref, codeRead, fmt.Sprintf("%s reads resource types that only evaluation knows (all of %s): name the type in the policy's text, or list the types under spec.replicate", ref, prefix))
}

func (a *analyser) fail(ref ast.Ref, code, message string) {
	a.errs = append(a.errs, oneError(a.file, ref[0].Location, code, message).Diagnostics...)
}

// part is the reference's i-th part, if it is there and constant.
func part(ref ast.Ref, i int) (string, bool) {
	if i >= len(ref) {
		return "", false
	}
	name, ok := ref[i].Value.(ast.String)
	return string(name), ok
}
