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

package placementmutator

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

// objects holds the new and the old object of a request, decoded as far as needed. The fields that every decision needs are decoded from
// the start: apiVersion, kind, and metadata without managedFields, which are a large part of many objects. If the request has no old
// object, as for a creation, the old one is empty, and not nil.
type objects struct {
	obj, old *partial // The object as requested, and as stored before; old has no content if there is none.
}

var _ placement.Source = (*objects)(nil)

// decode decodes the objects of a request. If whole is true, it decodes all of their fields that can be decoded.
func decode(req admission.Request, whole bool) (*objects, error) {
	out := &objects{old: &partial{}}
	var err error
	if out.obj, err = decodePartly(req.Object.Raw); err != nil {
		return nil, fmt.Errorf("decoding object: %w", err)
	}
	if len(req.OldObject.Raw) > 0 {
		if out.old, err = decodePartly(req.OldObject.Raw); err != nil {
			return nil, fmt.Errorf("decoding old object: %w", err)
		}
	}
	if whole {
		// A field that can't be decoded is an error only when it is read, the same as with whole set to false.
		_ = out.Complete()
	}
	return out, nil
}

// Fill decodes, for placement.Source, the fields at the top level of the new object that contain the given ones.
func (o *objects) Fill(fields *projection.FieldSet) error {
	names, ok := fields.MemberNames()
	if !ok {
		return o.obj.complete()
	}
	for _, name := range names {
		if err := o.obj.add(name); err != nil {
			return fmt.Errorf("decoding object: %w", err)
		}
	}
	return nil
}

// Complete decodes, for placement.Source, all fields of the new and the old object.
func (o *objects) Complete() error {
	if err := o.obj.complete(); err != nil {
		return fmt.Errorf("decoding object: %w", err)
	}
	if err := o.old.complete(); err != nil {
		return fmt.Errorf("decoding old object: %w", err)
	}
	return nil
}

// partial is an object of which some fields are not decoded yet.
type partial struct {
	object  *unstructured.Unstructured // The decoded fields; nil if the request has no such object.
	rest    map[string]json.RawMessage // The encoded fields that are not decoded yet, by name.
	managed json.RawMessage            // The encoded metadata.managedFields; nil if there are none, and once they are decoded.
}

const (
	memberMetadata      = "metadata"
	memberManagedFields = "managedFields"
)

// decodePartly decodes the fields of an object that every decision needs: apiVersion, kind, and metadata without managedFields. text is its
// JSON; it is an error if that is no JSON object.
func decodePartly(text []byte) (*partial, error) {
	p := &partial{object: &unstructured.Unstructured{}}
	var ok bool
	if p.rest, ok = members(text); !ok {
		// The text is not a JSON object. The library returns a detailed error.
		return p, utiljson.Unmarshal(text, &p.object.Object)
	}
	p.object.Object = make(map[string]any, len(p.rest))
	for _, name := range []string{"apiVersion", "kind"} {
		if err := p.add(name); err != nil {
			return nil, err
		}
	}
	metadata, ok := members(p.rest[memberMetadata])
	if !ok {
		return p, p.add(memberMetadata)
	}
	decoded := make(map[string]any, len(metadata))
	for name, text := range metadata {
		if name == memberManagedFields {
			p.managed = text
			continue
		}
		value, err := decodeValue(text)
		if err != nil {
			return nil, err
		}
		decoded[name] = value
	}
	delete(p.rest, memberMetadata)
	p.object.Object[memberMetadata] = decoded
	return p, nil
}

// decodeValue decodes a JSON value as the API machinery does, so that admission and remediation decide on the same numbers: as an int64 if
// a number has no fraction and no exponent and fits, and otherwise as a float64. A number that is too large for both is an error.
func decodeValue(text json.RawMessage) (any, error) {
	if value, ok := plain(text); ok {
		return value, nil
	}
	var value any
	err := utiljson.Unmarshal(text, &value)
	return value, err
}

// add decodes the field of the object with a name, if it exists and is not decoded yet.
func (p *partial) add(name string) error {
	text, ok := p.rest[name]
	if !ok {
		return nil
	}
	value, err := decodeValue(text)
	if err != nil {
		return err
	}
	p.object.Object[name] = value
	delete(p.rest, name)
	return nil
}

// complete decodes all fields that are not decoded yet.
func (p *partial) complete() error {
	for name := range maps.Clone(p.rest) {
		if err := p.add(name); err != nil {
			return err
		}
	}
	if p.managed == nil {
		return nil
	}
	value, err := decodeValue(p.managed)
	if err != nil {
		return err
	}
	// The metadata is a JSON object; otherwise managed would be nil.
	metadata, _ := p.object.Object[memberMetadata].(map[string]any)
	metadata[memberManagedFields] = value
	p.managed = nil
	return nil
}
