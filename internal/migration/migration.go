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

package migration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/language"
)

// The default label selectors with which kube-mgmt finds ConfigMaps.
const (
	DefaultPolicySelector = "openpolicyagent.org/policy=rego"
	DefaultDataSelector   = "openpolicyagent.org/data=opa"
)

const (
	// FromLabel is the label of policies that were converted from ConfigMaps.
	FromLabel = "placement.berth.dev/migrated-from"
	// FromConfigMaps is the value of FromLabel.
	FromConfigMaps = "configmaps"
	// ModulesAnnotation lists the modules that a policy was converted from, in the form "namespace/configmap/key".
	ModulesAnnotation = "placement.berth.dev/migrated-modules"
)

const (
	// maxText is the schema's limit on a policy's Rego, in characters.
	maxText = 65536
	// maxSpec is the maximum size of a spec, in bytes of JSON. The API server must be able to store both the policy and
	// the copy of its spec in the last good version.
	maxSpec = 1 << 20
	// rootCertificates is the ConfigMap that Kubernetes creates in every namespace.
	rootCertificates = "kube-root-ca.crt"
)

// statusAnnotations are the annotations in which kube-mgmt records whether OPA accepted a ConfigMap. Older versions of
// kube-mgmt use the second one. A ConfigMap that OPA refused is converted like others, with a warning.
var statusAnnotations = []string{"openpolicyagent.org/kube-mgmt-status", "openpolicyagent.org/policy-status"}

// Options say which ConfigMaps and packages are converted, as which version of Rego, and what all policies get: the resource rules that
// they match, the mode, and the mode of remediation.
type Options struct {
	// Policies selects the ConfigMaps with modules by their labels, and Data those with documents. A ConfigMap that both select has documents.
	Policies, Data labels.Selector
	// Packages are the packages that clients query in OPA, such as "kubernetes.placement". If empty, every package that
	// defines annotations, labels, errors, or warnings is converted.
	Packages []string
	// Language is the Rego version of the modules. If empty, it is detected for each module, and a module that parses in both versions
	// with different meanings is not converted.
	Language placementv1.RegoVersion
	// Resources, Mode, and Remediation are set in every policy.
	Resources   []placementv1.ResourceRule
	Mode        placementv1.Mode
	Remediation placementv1.RemediationMode
}

// Source identifies a module or a document by its key in a ConfigMap; without a key, it is the whole ConfigMap.
type Source struct {
	Namespace, ConfigMap, Key string
}

// String returns the name that kube-mgmt gives a module in OPA, "namespace/configmap/key"; "namespace/configmap" for a whole ConfigMap.
func (s Source) String() string {
	return strings.TrimSuffix(s.Namespace+"/"+s.ConfigMap+"/"+s.Key, "/")
}

// Outcome is whether a policy contains a source (converted), and if not, whether decisions may depend on it (left out) or not (not
// needed). A warning is an additional finding, besides one of these.
type Outcome string

const (
	// Converted means that a policy contains the source.
	Converted Outcome = "converted"
	// Unneeded means that no policy contains the source, and that no decision is lost.
	Unneeded Outcome = "not needed"
	// LeftOut means that no policy contains the source although decisions may depend on it, so that a user must review it.
	LeftOut Outcome = "left out"
	// Warning is additional information about a source.
	Warning Outcome = "warning"
)

// Finding describes what happened to a source, and why.
type Finding struct {
	Source  Source
	Outcome Outcome
	// Policy is the name of the policy that contains the source; set only for Converted.
	Policy  string
	Message string
}

// String returns the finding on one line: the source, the outcome, the policy if it has one, and the message with blanks for line breaks.
func (f Finding) String() string {
	text := string(f.Outcome)
	if f.Source != (Source{}) {
		text = f.Source.String() + ": " + text
	}
	if f.Policy != "" {
		text += fmt.Sprintf(" into PlacementPolicy %q", f.Policy)
	}
	if f.Message != "" {
		text += ": " + strings.Join(strings.Fields(f.Message), " ")
	}
	return text
}

// Policy is a PlacementPolicy that sources were converted to, with the types that it reads.
type Policy struct {
	Object *placementv1.PlacementPolicy
	// Reads are the resource types that Berth will watch for the policy.
	Reads []analysis.Read
}

// Result is the result of a conversion: the policies, and the findings on what happened to each source, warnings among them.
type Result struct {
	// Policies have distinct names and are sorted by name.
	Policies []Policy
	// Findings are sorted by source. Every key of every ConfigMap has a finding other than a Warning; a finding about a whole ConfigMap
	// covers all of its keys. A finding without a source concerns the options.
	Findings []Finding
}

// LeftOut returns the number of findings with the outcome LeftOut: on sources, and on packages in Options that no module has. If it is 0,
// every source is converted or not needed.
func (r Result) LeftOut() int {
	n := 0
	for _, f := range r.Findings {
		if f.Outcome == LeftOut {
			n++
		}
	}
	return n
}

// Convert converts ConfigMaps to policies. The order of the ConfigMaps does not matter.
func Convert(configMaps []corev1.ConfigMap, o Options) Result {
	c := &converter{options: o}
	c.gather(configMaps)
	c.packages = newModuleSet(c.modules)
	drafts := c.drafts()
	nameAll(drafts)
	for _, d := range drafts {
		c.finish(d)
	}
	c.settle()
	slices.SortFunc(c.result.Policies, func(x, y Policy) int { return strings.Compare(x.Object.Name, y.Object.Name) })
	slices.SortStableFunc(c.result.Findings, func(x, y Finding) int { return strings.Compare(x.Source.String(), y.Source.String()) })
	return c.result
}

// converter holds the state of one conversion.
type converter struct {
	options   Options
	modules   []*module   // those that parse and are not ambiguous, sorted by source
	documents []*document // sorted by source
	packages  moduleSet   // the packages of modules
	result    Result
}

// document is a JSON object in a key of a ConfigMap, which OPA has at data.<namespace>.<configmap>.<key>.
type document struct {
	source Source
	value  json.RawMessage
	used   bool // whether spec.data of a policy contains it
}

// path returns the parts of the path below data at which OPA has the document: the namespace, the ConfigMap, and the key with its
// extension.
func (d *document) path() []string {
	return []string{d.source.Namespace, d.source.ConfigMap, d.source.Key}
}

// addFinding adds a finding on a source to the result.
func (c *converter) addFinding(s Source, outcome Outcome, format string, args ...any) {
	c.result.Findings = append(c.result.Findings, Finding{Source: s, Outcome: outcome, Message: fmt.Sprintf(format, args...)})
}

// gather splits the ConfigMaps into modules, which are Rego, and documents, which are JSON objects, by the label selectors in Options. It
// updates Rego of old versions of OPA, and adds findings on the ConfigMaps and keys that it can't use, such as a document
// in YAML.
func (c *converter) gather(configMaps []corev1.ConfigMap) {
	sorted := slices.Clone(configMaps)
	slices.SortStableFunc(sorted, func(x, y corev1.ConfigMap) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
	for i, cm := range sorted {
		whole := Source{Namespace: cm.Namespace, ConfigMap: cm.Name}
		set := labels.Set(cm.Labels)
		switch {
		case i > 0 && sorted[i-1].Namespace == cm.Namespace && sorted[i-1].Name == cm.Name:
			c.addFinding(whole, LeftOut, "the ConfigMap is given twice; the first one counts")
			continue
		case cm.Name == rootCertificates:
			c.addFinding(whole, Unneeded, "Kubernetes keeps its own certificates in this ConfigMap")
			continue
		case c.options.Data.Matches(set):
			c.gatherDocuments(cm)
		case c.options.Policies.Matches(set):
			c.gatherModules(cm)
		default:
			c.addFinding(whole, Unneeded, "the labels of the ConfigMap match neither %q (policies) nor %q (data)",
				c.options.Policies, c.options.Data)
			continue
		}
		for key := range cm.BinaryData {
			c.addFinding(Source{cm.Namespace, cm.Name, key}, Unneeded, "kube-mgmt does not load binaryData")
		}
		if len(cm.Data)+len(cm.BinaryData) == 0 {
			c.addFinding(whole, Unneeded, "it is empty")
		}
		for _, annotation := range statusAnnotations {
			var status struct{ Status string }
			if json.Unmarshal([]byte(cm.Annotations[annotation]), &status) == nil && status.Status == "error" {
				c.addFinding(whole, Warning, "the annotation %s says that OPA refused the ConfigMap: OPA decides by an earlier version of it, or "+
					"without it", annotation)
			}
		}
	}
}

func (c *converter) gatherDocuments(cm corev1.ConfigMap) {
	for key, text := range cm.Data {
		source := Source{cm.Namespace, cm.Name, key}
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
			c.addFinding(source, LeftOut, "the value is no JSON object; kube-mgmt does not load it either")
			continue
		}
		if slices.Contains(language.Roots, cm.Namespace) {
			c.addFinding(source, LeftOut, "the value is at data.%s, where Berth keeps cluster data: move the ConfigMap to a namespace of another "+
				"name, and change the policies that read it", cm.Namespace)
			continue
		}
		c.documents = append(c.documents, &document{source: source, value: json.RawMessage(text)})
	}
	slices.SortFunc(c.documents, func(x, y *document) int { return strings.Compare(x.source.String(), y.source.String()) })
}

func (c *converter) gatherModules(cm corev1.ConfigMap) {
	for key, text := range cm.Data {
		source := Source{cm.Namespace, cm.Name, key}
		text, notes := updateLegacyRego(text)
		for _, note := range notes {
			c.addFinding(source, Warning, "%s", note)
		}
		m, err := parse(source, text, c.options.Language)
		switch {
		case err != nil:
			c.addFinding(source, LeftOut, "%v", err)
		case m.ambiguous:
			c.addFinding(source, LeftOut, "the module means one thing in Rego v0 and another in v1: say which by --rego-version")
		default:
			c.modules = append(c.modules, m)
		}
	}
	slices.SortFunc(c.modules, func(x, y *module) int { return strings.Compare(x.source.String(), y.source.String()) })
}

// draft is a policy that is being made from a package.
type draft struct {
	pkg *pkg
	// modules are all modules that the policy consists of. The package's own come first.
	modules  []*module
	text     string // the Rego of the policy: that of all modules, joined into one
	language placementv1.RegoVersion
	name     string // the name of the policy; nameAll derives it from the ConfigMap of the first module, not from the package
}

// drafts returns the drafts of the packages that become policies, still without names. If a package can't be assembled, its modules are
// left out. It adds a finding for each package in Options that no module has.
func (c *converter) drafts() []*draft {
	var out []*draft
	for _, name := range c.options.Packages {
		if !slices.ContainsFunc(c.packages, func(p *pkg) bool { return p.String() == name }) {
			c.addFinding(Source{}, LeftOut, "no module is of the package %s: correct --package", name)
		}
	}
	for _, p := range c.packages {
		if !c.wanted(p) {
			continue
		}
		if d, err := c.packages.assemble(p); err != nil {
			p.refuse(err)
		} else {
			out = append(out, d)
		}
	}
	return out
}

// wanted reports whether the package should become a policy: the user named it or, if the user named no package, it defines one of the
// rules in designRules.
func (c *converter) wanted(p *pkg) bool {
	return !c.unnamed(p) && (len(c.options.Packages) > 0 || p.definesAny(designRules))
}

// unnamed reports whether the user named the packages to convert, and not this one.
func (c *converter) unnamed(p *pkg) bool {
	return len(c.options.Packages) > 0 && !slices.Contains(c.options.Packages, p.String())
}

// finish makes the policy of a draft, compiles it as the webhook will, and adds it to the result. If that fails, the package is left out.
func (c *converter) finish(d *draft) {
	used := c.read(d)
	object, err := c.object(d, used)
	if err != nil {
		d.pkg.refuse(err)
		return
	}
	compiled, err := policy.Compile(d.name, object.Spec)
	if err != nil {
		d.pkg.refuse(err)
		return
	}
	c.accept(d, object, used, compiled)
}

// object returns the PlacementPolicy of a draft, with used, the documents that it reads, in spec.data; an error if its Rego would have more
// than maxText characters, or its spec more than maxSpec bytes of JSON.
func (c *converter) object(d *draft, used []*document) (*placementv1.PlacementPolicy, error) {
	if n := utf8.RuneCountInString(d.text); n > maxText {
		return nil, fmt.Errorf("the policy of this package would have a text of %d characters, and %d are allowed: move tables into data, or "+
			"split what is independent into packages of their own", n, maxText)
	}
	data, err := tree(used)
	if err != nil {
		return nil, err
	}
	object := &placementv1.PlacementPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: placementv1.GroupVersion.String(), Kind: "PlacementPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        d.name,
			Labels:      map[string]string{FromLabel: FromConfigMaps},
			Annotations: map[string]string{ModulesAnnotation: sourcesOf(d.modules)},
		},
		Spec: placementv1.PlacementPolicySpec{
			Match:         placementv1.Match{ResourceRules: c.options.Resources},
			Rego:          d.text,
			RegoVersion:   d.language,
			Data:          data,
			Mode:          c.options.Mode,
			FailurePolicy: placementv1.FailurePolicyFail,
			Remediation:   placementv1.Remediation{Mode: c.options.Remediation},
		},
	}
	encoded, err := json.Marshal(object.Spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the policy: %w", err)
	}
	if len(encoded) > maxSpec {
		return nil, fmt.Errorf("the policy of this package would take %d bytes with the data that it reads, and %d are allowed: read less, or "+
			"keep the data in objects of the cluster, which Berth replicates", len(encoded), maxSpec)
	}
	return object, nil
}

// read returns the documents that the modules of a draft may read.
func (c *converter) read(d *draft) []*document {
	var paths [][]string
	for _, m := range d.modules {
		paths = append(paths, c.packages.reads(m)...)
	}
	var out []*document
	for _, doc := range c.documents {
		if slices.ContainsFunc(paths, func(path []string) bool { return agree(path, doc.path()) }) {
			out = append(out, doc)
		}
	}
	return out
}

// tree returns one JSON object with the documents at the paths below data that they have in OPA; nil without documents.
func tree(documents []*document) (*apiextensionsv1.JSON, error) {
	if len(documents) == 0 {
		return nil, nil
	}
	root := map[string]map[string]map[string]json.RawMessage{}
	for _, d := range documents {
		namespace := root[d.source.Namespace]
		if namespace == nil {
			namespace = map[string]map[string]json.RawMessage{}
			root[d.source.Namespace] = namespace
		}
		if namespace[d.source.ConfigMap] == nil {
			namespace[d.source.ConfigMap] = map[string]json.RawMessage{}
		}
		namespace[d.source.ConfigMap][d.source.Key] = d.value
	}
	raw, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("encoding its data: %w", err)
	}
	return &apiextensionsv1.JSON{Raw: raw}, nil
}

// accept adds the policy of a draft to the result, with findings for its modules and documents, and warnings.
func (c *converter) accept(d *draft, object *placementv1.PlacementPolicy, used []*document, compiled *policy.Module) {
	c.result.Policies = append(c.result.Policies, Policy{Object: object, Reads: compiled.Reads})
	for i, m := range d.modules {
		message := ""
		if i >= len(d.pkg.modules) {
			message = fmt.Sprintf("the package %s reads the module's package %s", d.pkg, m.pkg)
		}
		m.converted = true
		c.result.Findings = append(c.result.Findings, Finding{Source: m.source, Outcome: Converted, Policy: d.name, Message: message})
	}
	for _, doc := range used {
		doc.used = true
		c.result.Findings = append(c.result.Findings, Finding{Source: doc.source, Outcome: Converted, Policy: d.name, Message: "as its data"})
	}
	for _, w := range append(compiled.Warnings, c.hints(d)...) {
		c.addFinding(d.pkg.modules[0].source, Warning, "%s", w)
	}
}

// settle adds a finding for each module and document that no policy contains, and for each module whose own package failed to become a
// policy, even if the policy of another package contains it.
func (c *converter) settle() {
	for _, m := range c.modules {
		switch {
		case m.refused != "" && m.converted:
			c.addFinding(m.source, LeftOut, "only policies of packages that read the module contain it: its own package can't become a policy: %s",
				m.refused)
		case m.refused != "":
			c.addFinding(m.source, LeftOut, "%s", m.refused)
		case m.converted:
		case c.unnamed(m.pkg):
			c.addFinding(m.source, Unneeded, "the package %s is none of those in --package, and none of these reads that package", m.pkg)
		default:
			c.addFinding(m.source, LeftOut, "%s", reasonOmitted(m.pkg))
		}
	}
	for _, d := range c.documents {
		if !d.used {
			c.addFinding(d.source, Unneeded, "no policy that was made reads %s", referenceTo(d.path()))
		}
	}
}

// sourcesOf returns the names of the modules' sources, separated by blanks.
func sourcesOf(modules []*module) string {
	names := make([]string, len(modules))
	for i, m := range modules {
		names[i] = m.source.String()
	}
	return strings.Join(names, " ")
}
