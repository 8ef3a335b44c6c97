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

package typecheck

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/types"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds maps the kinds of one group and version to the types of their objects. It is immutable and safe for concurrent
// use.
type Kinds map[string]types.Type

// ParseOpenAPI converts the schemas of all kinds in the OpenAPI v3 document that the API server publishes for a group
// and version. Unsupported schemas become the type any.
func ParseOpenAPI(gv schema.GroupVersion, document []byte) (Kinds, error) {
	var parsed struct {
		Components struct {
			Schemas map[string]*openAPISchema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		return nil, fmt.Errorf("parsing the OpenAPI document of %s: %w", gv, err)
	}
	c := &converter{schemas: parsed.Components.Schemas, done: map[string]types.Type{}, open: map[string]bool{}}
	out := Kinds{}
	for name, s := range c.schemas {
		for _, gvk := range s.Kinds {
			if gvk.Group == gv.Group && gvk.Version == gv.Version {
				out[gvk.Kind] = withoutManagedFields(c.component(name))
			}
		}
	}
	return out, nil
}

// openAPISchema has the parts of a schema that determine a type.
type openAPISchema struct {
	Ref             string                    `json:"$ref"`
	Type            string                    `json:"type"`
	Format          string                    `json:"format"`
	Pattern         string                    `json:"pattern"`
	Properties      map[string]*openAPISchema `json:"properties"`
	Additional      json.RawMessage           `json:"additionalProperties"` // A boolean or a schema.
	Items           *openAPISchema            `json:"items"`
	AllOf           []*openAPISchema          `json:"allOf"`
	OneOf           []*openAPISchema          `json:"oneOf"`
	AnyOf           []*openAPISchema          `json:"anyOf"`
	Nullable        bool                      `json:"nullable"`
	PreserveUnknown bool                      `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded        bool                      `json:"x-kubernetes-embedded-resource"`
	IntOrString     bool                      `json:"x-kubernetes-int-or-string"`
	Kinds           []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// converter converts the schemas of one document to types of Rego values, each component once.
type converter struct {
	schemas map[string]*openAPISchema // By the name of the component.
	done    map[string]types.Type     // The types of the components that are converted.
	// open has the components that enclose the current schema. A component that occurs again is recursive.
	open map[string]bool
}

// component returns the type of the component with a name; any for one that is missing, and for one that is being converted already, as
// where it contains itself.
func (c *converter) component(name string) types.Type {
	if t, ok := c.done[name]; ok {
		return t
	}
	s := c.schemas[name]
	if s == nil || c.open[name] {
		return types.A
	}
	c.open[name] = true
	t := c.convert(s)
	delete(c.open, name)
	if strings.HasSuffix(name, ".Quantity") {
		t = quantity
	}
	c.done[name] = t
	return t
}

// quantityPattern is the pattern that controller-gen writes into a custom resource's schema for a resource.Quantity.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// convert returns the type of the values that a schema accepts, including null if it accepts that.
func (c *converter) convert(s *openAPISchema) types.Type {
	t := c.bare(s)
	if s != nil && (s.Nullable || s.Format == "date-time") {
		if isAny(t) {
			return t
		}
		return types.Or(t, types.Nl)
	}
	return t
}

// bare returns the type of the values of a schema, without null.
func (c *converter) bare(s *openAPISchema) types.Type {
	switch {
	case s == nil, s.PreserveUnknown, s.Embedded:
		return types.A
	case s.IntOrString && s.Pattern == quantityPattern:
		return quantity
	case s.IntOrString, s.Format == "int-or-string":
		return types.NewAny(types.N, types.S)
	case s.Ref != "":
		return c.component(strings.TrimPrefix(s.Ref, "#/components/schemas/"))
	case s.Type == "" && len(s.Properties) == 0:
		return c.combined(s)
	}
	switch s.Type {
	case "string":
		return types.S
	case "integer", "number":
		return types.N
	case "boolean":
		return types.B
	case "array":
		return types.NewArray(nil, c.convert(s.Items))
	default:
		return c.object(s)
	}
}

// combined converts a schema that has neither a type nor properties. A single allOf, by which documents add a description or a default to a
// reference, stands for its member. A oneOf or anyOf of strings, numbers, and booleans becomes their union. Any other combination becomes
// any.
func (c *converter) combined(s *openAPISchema) types.Type {
	if len(s.AllOf) == 1 && len(s.OneOf)+len(s.AnyOf) == 0 {
		return c.convert(s.AllOf[0])
	}
	either := slices.Concat(s.OneOf, s.AnyOf)
	if len(either) == 0 || len(s.AllOf) > 0 {
		return types.A
	}
	var out types.Type
	for _, one := range either {
		switch one.Type {
		case "string", "integer", "number", "boolean":
			out = types.Or(out, c.convert(one))
		default:
			return types.A
		}
	}
	return out
}

// object returns the type of the objects that a schema describes. If it has neither properties nor additionalProperties, they may have any
// fields.
func (c *converter) object(s *openAPISchema) types.Type {
	var static []*types.StaticProperty
	for name, property := range s.Properties {
		static = append(static, types.NewStaticProperty(name, c.convert(property)))
	}
	var dynamic *types.DynamicProperty
	switch additional := string(s.Additional); additional {
	case "", "false", "null":
		if len(static) == 0 {
			dynamic = types.NewDynamicProperty(types.S, types.A)
		}
	case "true", "{}":
		dynamic = types.NewDynamicProperty(types.S, types.A)
	default:
		var of openAPISchema
		if json.Unmarshal(s.Additional, &of) != nil {
			return types.A
		}
		dynamic = types.NewDynamicProperty(types.S, c.convert(&of))
	}
	return types.NewObject(static, dynamic)
}

// withoutManagedFields returns the type of an object without metadata.managedFields, which policies do not receive.
func withoutManagedFields(t types.Type) types.Type {
	return replaced(t, "metadata", func(metadata types.Type) types.Type { return without(metadata, "managedFields") })
}

// without returns an object's type without some of its fields. Other types are returned unchanged.
func without(t types.Type, names ...string) types.Type {
	object, ok := t.(*types.Object)
	if !ok {
		return t
	}
	static := slices.DeleteFunc(slices.Clone(object.StaticProperties()), func(p *types.StaticProperty) bool {
		name, ok := p.Key.(string)
		return ok && slices.Contains(names, name)
	})
	return types.NewObject(static, object.DynamicProperties())
}

// replaced returns an object's type in which f has converted the type of the field with a name. Other types are returned unchanged.
func replaced(t types.Type, name string, f func(types.Type) types.Type) types.Type {
	object, ok := t.(*types.Object)
	if !ok {
		return t
	}
	static := slices.Clone(object.StaticProperties())
	for i, p := range static {
		if p.Key == name {
			static[i] = types.NewStaticProperty(name, f(p.Value))
		}
	}
	return types.NewObject(static, object.DynamicProperties())
}
