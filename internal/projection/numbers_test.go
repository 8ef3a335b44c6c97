package projection

import "testing"

// TestNumbersAreAsInJSON: a float is written as in JSON, wherever it is, so that all engines see the same text.
func TestNumbersAreAsInJSON(t *testing.T) {
	all := &Fields{}
	all.All()
	for number, want := range map[float64]string{1e8: "100000000", 1234567.5: "1234567.5", 0.00001: "0.00001", 1e21: "1e+21", 0.5: "0.5", 1: "1"} {
		document := map[string]any{"a": []any{map[string]any{"b": number}}}
		got, err := all.Seal().Value(document)
		if text := `{"a": [{"b": ` + want + `}]}`; err != nil || got.String() != text {
			t.Errorf("%v is %s, %v; want %s", number, got, err, text)
		}
		if document["a"].([]any)[0].(map[string]any)["b"] != number {
			t.Error("the document was changed")
		}
	}
}
