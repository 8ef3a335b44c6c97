package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// maxRequest bounds a request's body, in bytes.
const maxRequest = 8 << 20

// encodeRequest is the body that asks about an object.
func encodeRequest(input map[string]any, v0 bool) ([]byte, error) {
	var document any = input
	if !v0 {
		document = map[string]any{"input": input}
	}
	body, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("the object can't be written as JSON: %w", err)
	}
	if len(body) > maxRequest {
		return nil, fmt.Errorf("the object has %d bytes as JSON, at most %d are sent", len(body), maxRequest)
	}
	return body, nil
}

// decodeAnswer reads an answer with a status of success. defined is false if there is no result. The error is a
// *placement.ContractError if there is one that is no decision, such as null, which OPA says of a rule that is; any other
// means that it can't be read.
func decodeAnswer(body []byte, v0 bool) (rules map[string]any, defined bool, err error) {
	if !utf8.Valid(body) {
		return nil, false, errors.New("the answer is not in UTF-8")
	}
	document, err := decodeJSON(body)
	if err != nil {
		return nil, false, reason{"the answer is not JSON", err}
	}
	if !v0 {
		answer, ok := document.(map[string]any)
		if !ok {
			return nil, false, fmt.Errorf("the answer must be an object, is %s: is it an API like OPA's?", placement.TypeName(document))
		}
		if document, ok = answer["result"]; !ok {
			for member := range answer {
				if !slices.Contains(besideResult, member) {
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

// isError reports whether a document is an error of the older form, which stands in the document's own place: a text as
// error, or as code and message. A policy's document may have such helpers, but also has rules of the contract.
func isError(document map[string]any) bool {
	for _, rule := range policy.ContractRules {
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

// besideResult are the members that OPA's answers may have without a result. Anything else, such as the words of a gateway
// that is in maintenance, is not said by an engine that has no opinion.
var besideResult = []string{"decision_id", "explanation", "metrics", "provenance", "warning"}

// decodeJSON reads one document, with numbers as json.Number.
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
