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

// Package numeral bounds what it costs to read texts that stand for numbers. Such texts come from users, and with a large exponent
// Kubernetes' parser of quantities computes powers of ten for minutes or forever, which nothing interrupts.
package numeral

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxDigits is the largest number of digits of a number that is cheap to read. It suffices for each 64-bit floating-point number.
const MaxDigits = 400

// Digits returns how many decimal digits the number at the start of a text has when it is written without an exponent. It is zero if the
// text does not start with a number. Above MaxDigits, it counts no further. Quotation marks do not count, since some parsers remove them.
//
// It is meant for the texts of all kinds of numbers: integers, decimals, quantities, versions, and durations, and hexadecimal numbers such
// as 0x1p-9. Their exponent, which has the base two, counts like one with the base ten, and negative exponents like positive ones, so that
// the result may be too large.
func Digits(text string) int {
	mantissa, exponent := 0, 0
	isExponent, isHex := false, false
	for i := 0; i < len(text) && mantissa+exponent <= MaxDigits; i++ {
		switch c := text[i]; {
		case '0' <= c && c <= '9':
			if isExponent {
				exponent = 10*exponent + int(c-'0')
			} else {
				mantissa++
			}
		case strings.IndexByte("+-._\"", c) >= 0:
		case (c == 'x' || c == 'X') && mantissa == 1 && text[i-1] == '0':
			isHex = true
		case isHex && !isExponent && strings.IndexByte("abcdefABCDEF", c) >= 0:
			mantissa++
		case strings.IndexByte("eEpP", c) >= 0 && mantissa > 0 && !isExponent:
			isExponent = true
		default:
			return mantissa + exponent
		}
	}
	return mantissa + exponent
}

// IsCheap reports whether a text is cheap to read as a number, and to calculate with. A text that is no number is cheap.
func IsCheap(text string) bool { return Digits(text) <= MaxDigits }

// Quantity parses a quantity. It returns an error for a text that is none, and ErrTooLong for one with more than MaxDigits digits.
func Quantity(text string) (resource.Quantity, error) {
	if !IsCheap(text) {
		return resource.Quantity{}, ErrTooLong
	}
	return resource.ParseQuantity(text)
}

// ErrTooLong is the error for a number with more than MaxDigits digits.
var ErrTooLong = fmt.Errorf("the number has more than %d digits, counting those that its exponent stands for", MaxDigits)

// FromUnstructured converts the content of an object to a typed one, as runtime.DefaultUnstructuredConverter does. It returns an
// error with the field's path if a quantity has more than MaxDigits digits. The typed object is a pointer to a struct.
func FromUnstructured(content map[string]any, typed any) error { return convert(content, typed, false) }

// FromUnstructuredStrictly converts the content of an object to a typed one, a pointer to a struct. It returns an error for fields that the
// typed object does not have, and an error with the field's path if a quantity has more than MaxDigits digits.
func FromUnstructuredStrictly(content map[string]any, typed any) error {
	return convert(content, typed, true)
}

// Check returns an error with the field's path if an object of the given type, a pointer to a struct, has a quantity of more than
// MaxDigits digits.
func Check(content map[string]any, typed any) error {
	if !hasLongText(content) {
		return nil
	}
	return check(content, reflect.TypeOf(typed).Elem(), nil)
}

// convert converts the content of an object to a typed one, unless Check returns an error. If strict is true, unknown fields are errors.
func convert(content map[string]any, typed any, strict bool) error {
	if err := Check(content, typed); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, typed, strict)
}

// hasLongText reports whether a value is, or has at any depth, a string or a json.Number that is not cheap to read as a number. Most
// objects have none, so that Check need not compare them with their types.
func hasLongText(value any) bool {
	switch v := value.(type) {
	case string:
		return !IsCheap(v)
	case json.Number:
		return !IsCheap(string(v))
	case []any:
		return slices.ContainsFunc(v, hasLongText)
	case map[string]any:
		for _, member := range v {
			if hasLongText(member) {
				return true
			}
		}
	}
	return false
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// check returns an error if a value has a text that is not cheap to read where the type to has a quantity. path is the path of the value.
func check(value any, to reflect.Type, path *field.Path) error {
	for to.Kind() == reflect.Pointer {
		to = to.Elem()
	}
	if to == quantityType {
		if hasLongText(value) {
			return fmt.Errorf("%s: %w", path, ErrTooLong)
		}
		return nil
	}
	switch v := value.(type) {
	case []any:
		if to.Kind() != reflect.Slice {
			return nil
		}
		for i, member := range v {
			if err := check(member, to.Elem(), path.Index(i)); err != nil {
				return err
			}
		}
	case map[string]any:
		switch to.Kind() {
		case reflect.Map:
			for key, member := range v {
				if err := check(member, to.Elem(), path.Key(key)); err != nil {
					return err
				}
			}
		case reflect.Struct:
			return checkFields(v, to, path)
		}
	}
	return nil
}

// checkFields returns an error if an object has a text that is not cheap to read where the struct to has a quantity. path is the path of
// the object.
func checkFields(object map[string]any, to reflect.Type, path *field.Path) error {
	for f := range to.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		var err error
		if member, found := object[name]; found {
			err = check(member, f.Type, path.Child(name))
		} else if name == "" && f.Anonymous {
			err = check(object, f.Type, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
