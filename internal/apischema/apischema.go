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

// Package apischema validates objects by the schema of their CustomResourceDefinition, as the API server does before it calls
// webhooks.
package apischema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/config/crd"
)

// kinds compile the schemas of Berth's API, each once.
var kinds = map[string]func() (*Schema, error){
	"PlacementPolicy": once(crd.PlacementPolicies), "ScopedQuota": once(crd.ScopedQuotas), "ClusterScopedQuota": once(crd.ClusterScopedQuotas),
	"LimitedResource": once(crd.LimitedResources),
}

// once returns a function that compiles the schema in the YAML of a CustomResourceDefinition when it is first called. Later calls return
// the same schema.
func once(text []byte) func() (*Schema, error) {
	return sync.OnceValues(func() (*Schema, error) {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &definition); err != nil {
			return nil, fmt.Errorf("decoding the definition: %w", err)
		}
		return New(definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
	})
}

// Kinds returns the kinds of Berth's API in a new slice, sorted: ClusterScopedQuota, LimitedResource, PlacementPolicy, and ScopedQuota.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Of returns the schema of a kind of Berth's API, or an error if the API has no such kind.
func Of(kind string) (*Schema, error) {
	schema, known := kinds[kind]
	if !known {
		return nil, fmt.Errorf("the API of Berth has no kind %s", kind)
	}
	return schema()
}

// Schema is the compiled schema of one kind in one version. It is immutable and safe for concurrent use.
type Schema struct {
	structural *structuralschema.Structural // the structural schema, by which defaults are set, and lists and CEL rules are checked
	values     validation.SchemaValidator   // validates everything but CEL rules, and lists that are sets or maps
	rules      *cel.Validator               // evaluates x-kubernetes-validations; nil if the schema has none
}

// New compiles the OpenAPI schema of a CustomResourceDefinition's version, which must not be nil. A schema that is not structural is an
// error. A CEL rule that does not compile is not: Validate reports it for each value that the rule applies to.
func New(schema *apiextensionsv1.JSONSchemaProps) (*Schema, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, &internal, nil); err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, fmt.Errorf("the schema is not structural: %w", err)
	}
	values, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", err)
	}
	return &Schema{structural: structural, values: values, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Validate returns the errors for which the API server refuses to create an object, after it has set the defaults. It does not change its
// argument. The object has integers as int64, as in unstructured content. Fields that the schema does not have are no errors.
func (s *Schema) Validate(ctx context.Context, object map[string]any) field.ErrorList {
	object = runtime.DeepCopyJSON(object)
	defaulting.Default(object, s.structural)
	errs := validation.ValidateCustomResource(nil, object, s.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if slices.ContainsFunc(errs, hidesRules) {
		return errs
	}
	rules, _ := s.rules.Validate(ctx, nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, rules...)
}

// Explain returns why an object can't be converted to the type of a kind of Berth's API. err is the error of the conversion, which names no
// field. Explain returns the errors of the object by the kind's schema instead, which name the fields, or err if there are none.
func Explain(kind string, object map[string]any, err error) error {
	schema, unknown := Of(kind)
	if unknown != nil {
		return err
	}
	if errs := validation.ValidateCustomResource(nil, object, schema.values); len(errs) > 0 {
		return errs.ToAggregate()
	}
	return err
}

// hidesRules reports whether an error is of a type after which the API server does not evaluate the schema's CEL rules: a required field is
// missing, a value has a wrong type or is too long, or there are too many values. Other types, such as an unsupported value, do not count.
func hidesRules(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
		field.ErrorTypeTypeInvalid}, err.Type)
}
