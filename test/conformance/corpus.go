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

// Package conformance has the cases on which every engine that decides policies has to agree; README.md has their form.
package conformance

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
)

//go:embed corpus/*.yaml
var corpus embed.FS

// Theme is one file: policies about one thing, and the world that they see.
type Theme struct {
	// Name is the file's, without its extension.
	Name string `json:"-"`
	// About says in a sentence what is at stake.
	About string `json:"about"`
	// Types are the resource types that the API server has.
	Types []Type `json:"types,omitempty"`
	// Objects are the API server's, each of one of the types.
	Objects  []Object `json:"objects,omitempty"`
	Policies []Policy `json:"policies"`
}

// Type is a resource type.
type Type struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	Namespaced bool   `json:"namespaced,omitempty"`
}

// Policy is a text and what it decides.
type Policy struct {
	Name string `json:"name"`
	// RegoVersion is v1 where it is not said.
	RegoVersion placementv1.RegoVersion `json:"regoVersion,omitempty"`
	Rego        string                  `json:"rego"`
	// Data are documents of the policy's own, under names that no other policy of the corpus has.
	Data json.RawMessage `json:"data,omitempty"`
	// Replicate are the types that the text reads in a way that can't be seen from it, as in a PlacementPolicy.
	Replicate []placementv1.ReplicatedResource `json:"replicate,omitempty"`
	Cases     []Case                           `json:"cases"`
}

// Case is an object and what becomes of it: either a decision or a failure.
type Case struct {
	Name string `json:"name"`
	// Note says why, where that is not plain.
	Note     string    `json:"note,omitempty"`
	Object   Object    `json:"object"`
	Decision *Decision `json:"decision,omitempty"`
	Fails    *Failure  `json:"fails,omitempty"`
}

// Decision is what a policy says; what is left out has no opinion.
type Decision struct {
	// Annotations and Labels are as they are written to the object.
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Scheduling is as the rule has it.
	Scheduling map[string]any `json:"scheduling,omitempty"`
	// Clusters, Errors and Warnings are in any order. An empty list of clusters is an opinion.
	Clusters *[]string `json:"clusters,omitempty"`
	Errors   []string  `json:"errors,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Failure is why there is no decision.
type Failure struct {
	Kind FailureKind `json:"kind"`
	// Rule is the one that breaks the contract, and Message a part of what is said of it.
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message,omitempty"`
}

// FailureKind is a kind of failure.
type FailureKind string

const (
	// Contract means that the policy's result is not of the decision contract's types.
	Contract FailureKind = "Contract"
	// Evaluation means that the policy has no result, as when a rule has two values.
	Evaluation FailureKind = "Evaluation"
)

// Object is an object, or the text of its JSON where YAML would change numbers.
type Object struct {
	Document map[string]any
}

// UnmarshalJSON implements json.Unmarshaler. Numbers become what they are in objects of the API server.
func (o *Object) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	if err := utiljson.Unmarshal(raw, &o.Document); err != nil {
		return err
	}
	if o.Document == nil {
		return errors.New("an object is null")
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) { return json.Marshal(o.Document) }

// GroupVersionResource names the type.
func (t Type) GroupVersionResource() (schema.GroupVersionResource, error) {
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	return gv.WithResource(t.Resource), err
}

// Spec is the policy as a PlacementPolicy has it.
func (p Policy) Spec() placementv1.PlacementPolicySpec {
	spec := placementv1.PlacementPolicySpec{Rego: p.Rego, RegoVersion: p.RegoVersion, Replicate: p.Replicate}
	if len(p.Data) > 0 {
		spec.Data = &apiextensionsv1.JSON{Raw: p.Data}
	}
	return spec.WithDefaults()
}

// Want is the decision as Berth has it.
func (d *Decision) Want() (placement.Decision, error) {
	rules := map[string]any{}
	if d.Scheduling != nil {
		rules["scheduling"] = d.Scheduling
	}
	out, err := placement.ParseDecision(rules)
	if err != nil {
		return placement.Decision{}, fmt.Errorf("reading what is expected: %w", err)
	}
	out.Annotations, out.Labels = d.Annotations, d.Labels
	out.Errors, out.Warnings = slices.Sorted(slices.Values(d.Errors)), slices.Sorted(slices.Values(d.Warnings))
	if d.Clusters != nil {
		out.Clusters = append([]string{}, slices.Sorted(slices.Values(*d.Clusters))...)
	}
	return out, nil
}

// Mismatch says how a decision, or the error in place of it, differs from what is expected; empty if it does not.
func (c Case) Mismatch(got placement.Decision, failed error) (string, error) {
	if c.Fails != nil {
		return c.Fails.mismatch(got, failed), nil
	}
	if failed != nil {
		return fmt.Sprintf("failed: %v", failed), nil
	}
	want, err := c.Decision.Want()
	if err != nil || got.Equal(want) {
		return "", err
	}
	return "differs (-want +got):\n" + cmp.Diff(want, got), nil
}

func (f *Failure) mismatch(got placement.Decision, failed error) string {
	if failed == nil {
		return fmt.Sprintf("decided %+v, want that it fails", got)
	}
	kind, rule := Classify(failed)
	if kind != f.Kind || rule != f.Rule || !strings.Contains(failed.Error(), f.Message) {
		return fmt.Sprintf("failed by %s %s: %v; want %s %s: %s", kind, rule, failed, f.Kind, f.Rule, f.Message)
	}
	return ""
}

// Load reads the corpus.
func Load() ([]Theme, error) { return load(corpus) }

func load(files fs.FS) ([]Theme, error) {
	names, err := fs.Glob(files, "corpus/*.yaml")
	if err != nil {
		return nil, err
	}
	var out []Theme
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		theme := Theme{Name: strings.TrimSuffix(path.Base(name), ".yaml")}
		if err := yaml.UnmarshalStrict(text, &theme); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := theme.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, theme)
	}
	return out, distinct(out)
}

// check says what is wrong with a theme that its form allows.
func (t *Theme) check() error {
	if t.About == "" || len(t.Policies) == 0 {
		return errors.New("about and policies are required")
	}
	if _, err := t.World(); err != nil {
		return err
	}
	for _, p := range t.Policies {
		if p.Name == "" || len(p.Cases) == 0 {
			return fmt.Errorf("policy %q: name and cases are required", p.Name)
		}
		for _, c := range p.Cases {
			if err := c.check(); err != nil {
				return fmt.Errorf("policy %s, case %q: %w", p.Name, c.Name, err)
			}
		}
	}
	return nil
}

func (c Case) check() error {
	switch {
	case c.Name == "" || c.Object.Document == nil:
		return errors.New("name and object are required")
	case (c.Decision == nil) == (c.Fails == nil):
		return errors.New("either decision or fails is required")
	case c.Fails != nil && c.Fails.Kind != Contract && c.Fails.Kind != Evaluation:
		return fmt.Errorf("fails.kind is %q, must be %s or %s", c.Fails.Kind, Contract, Evaluation)
	case c.Fails != nil && (c.Fails.Kind == Contract) != (c.Fails.Rule != ""):
		return errors.New("fails.rule goes with Contract, and with it alone")
	case c.Decision != nil:
		_, err := c.Decision.Want()
		return err
	}
	return nil
}

// distinct says what several policies or cases share that must be their own.
func distinct(themes []Theme) error {
	taken := map[string]string{}
	take := func(what, by string) error {
		if other, ok := taken[what]; ok {
			return fmt.Errorf("%s is both %s's and %s's", what, other, by)
		}
		taken[what] = by
		return nil
	}
	var errs []error
	for _, t := range themes {
		for _, p := range t.Policies {
			by := t.Name + "/" + p.Name
			errs = append(errs, take("policy "+by, by))
			module, err := policy.Compile(p.Name, p.Spec())
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", by, err))
				continue
			}
			errs = append(errs, take("package "+module.Package.String(), by))
			var data map[string]any
			if len(p.Data) > 0 {
				errs = append(errs, json.Unmarshal(p.Data, &data))
			}
			for name := range data {
				errs = append(errs, take("data."+name, by))
			}
			for _, c := range p.Cases {
				errs = append(errs, take("case "+by+"/"+c.Name, by))
			}
		}
	}
	return errors.Join(errs...)
}

// World is what the policies of a theme see. It is immutable.
type World struct {
	types   []policy.Resource
	objects map[schema.GroupVersionResource][]*unstructured.Unstructured
}

// World returns the theme's world.
func (t *Theme) World() (*World, error) {
	w := &World{objects: map[schema.GroupVersionResource][]*unstructured.Unstructured{}}
	kinds := map[string]policy.Resource{}
	for _, listed := range t.Types {
		gvr, err := listed.GroupVersionResource()
		if err != nil {
			return nil, err
		}
		r := policy.Resource{GroupVersionResource: gvr, Namespaced: listed.Namespaced}
		w.types = append(w.types, r)
		kinds[listed.APIVersion+" "+listed.Kind] = r
	}
	for _, o := range t.Objects {
		object := &unstructured.Unstructured{Object: o.Document}
		r, ok := kinds[object.GetAPIVersion()+" "+object.GetKind()]
		switch {
		case !ok:
			return nil, fmt.Errorf("the object %s is of no type that is listed", object.GetName())
		case (object.GetNamespace() != "") != r.Namespaced:
			return nil, fmt.Errorf("the object %s has a namespace, or has none, against its type", object.GetName())
		}
		w.objects[r.GroupVersionResource] = append(w.objects[r.GroupVersionResource], object)
	}
	return w, nil
}

// Prepared returns a type's objects as engines get them.
func (w *World) Prepared(r schema.GroupVersionResource) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, o := range w.objects[r] {
		o = o.DeepCopy()
		w.Inventories().Prepare(r, o)
		out = append(out, o)
	}
	return out
}

// ByPlural implements policy.ServedTypes.
func (w *World) ByPlural(plural string) []policy.Resource {
	return slices.DeleteFunc(slices.Clone(w.types), func(r policy.Resource) bool { return r.Resource != plural })
}

// Exact implements policy.ServedTypes.
func (w *World) Exact(r schema.GroupVersionResource) (policy.Resource, bool) {
	i := slices.IndexFunc(w.types, func(s policy.Resource) bool { return s.GroupVersionResource == r })
	if i < 0 {
		return policy.Resource{}, false
	}
	return w.types[i], true
}

// Inventories implements policy.ServedTypes: they are those that Berth knows.
func (*World) Inventories() *replication.Inventories { return replication.Known() }
