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

package opaclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy/language"
)

// MaxRequest is the maximum size of a request's body in bytes.
const MaxRequest = 8 << 20

// EncodeInput returns the body of a request for the decision on an object: input itself for version 0 of OPA's data API (v0), and otherwise
// an object with the member input. A body of more than MaxRequest bytes is an error.
func EncodeInput(input map[string]any, v0 bool) ([]byte, error) {
	var document any = input
	if !v0 {
		document = map[string]any{"input": input}
	}
	body, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("the object can't be written as JSON: %w", err)
	}
	if len(body) > MaxRequest {
		return nil, fmt.Errorf("the object has %d bytes as JSON, but at most %d are sent to an engine: make the object smaller", len(body),
			MaxRequest)
	}
	return body, nil
}

// DecodeResult decodes a response with a success status to the values of the rules, by name. defined is false if a response of the v1 API
// has no result. The error is a *placement.ContractError if there is a result that is not an object, as decisions are. That includes null,
// which is a rule's value and not the absence of one. Any other error means that the response can't be read.
func DecodeResult(body []byte, v0 bool) (rules map[string]any, defined bool, err error) {
	if !utf8.Valid(body) {
		return nil, false, errors.New("the answer is not in UTF-8")
	}
	document, err := decodeJSON(body)
	if err != nil {
		return nil, false, messageError{"the answer is not JSON", err}
	}
	if !v0 {
		answer, ok := document.(map[string]any)
		if !ok {
			return nil, false, fmt.Errorf("the answer must be an object, is %s: does spec.remote.url lead to an API like OPA's?",
				placement.TypeName(document))
		}
		if document, ok = answer["result"]; !ok {
			for member := range answer {
				if !slices.Contains(membersBesideResult, member) {
					return nil, false, fmt.Errorf("the answer is %s, without result", shapeOfDocument(answer))
				}
			}
			return nil, false, nil
		}
	}
	rules, ok := document.(map[string]any)
	if !ok {
		return nil, false, &placement.ContractError{Rule: "result", Message: "must be an object, is " + placement.TypeName(document)}
	}
	if v0 && isError(rules) {
		return nil, false, fmt.Errorf("the answer is an error: %s", shapeOfDocument(rules))
	}
	return rules, true, nil
}

// isError reports whether a document is an error of the v0 API, which returns documents and errors in the same place. Such an error has a
// string as error, or strings as code and message. A policy's document may have helpers of these names, but it also has rules of the
// decision contract.
func isError(document map[string]any) bool {
	for _, rule := range language.ContractRules {
		if _, ok := document[rule]; ok {
			return false
		}
	}
	if _, ok := document["error"].(string); ok {
		return true
	}
	_, isCode := document["code"].(string)
	_, isMessage := document["message"].(string)
	return isCode && isMessage
}

// membersBesideResult are the members that a response of OPA without a result may have. A response with other members,
// such as the maintenance message of a gateway, does not come from an engine whose policy is undefined.
var membersBesideResult = []string{"decision_id", "explanation", "metrics", "provenance", "warning"}

// decodeJSON decodes exactly one JSON document, with numbers as json.Number. It is an error if something follows it.
func decodeJSON(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	return document, nil
}
