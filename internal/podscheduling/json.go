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

package podscheduling

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// EncodeJSON returns a value's JSON without HTML escapes and without a final newline.
func EncodeJSON(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("encoding as JSON: %w", err)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// JSONText returns a value's JSON with sorted keys. Equal values have equal texts, whatever Go type their numbers have.
func JSONText(value any) string {
	// Encoding does not fail: the value was decoded from JSON.
	text, _ := EncodeJSON(value)
	return text
}

// JSONValue decodes a JSON text; nil if it is not valid.
func JSONValue(text string) any {
	var out any
	if err := utiljson.Unmarshal([]byte(text), &out); err != nil {
		return nil
	}
	return out
}

// jsonObject decodes a JSON object; nil if text is nil or is not an object.
func jsonObject(text *string) map[string]any {
	if text == nil {
		return nil
	}
	out, _ := JSONValue(*text).(map[string]any)
	return out
}
