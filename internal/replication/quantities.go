package replication

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxQuantity bounds the text of an amount, and maxExponent the digits of its decimal exponent: the arithmetic of
// quantities takes time and memory by what they stand for, and who writes an inventory is not always an administrator.
const (
	maxQuantity = 64
	maxExponent = 2
)

// Quantity reads an amount of a resource as objects have it: a quantity's text, or a number. ok is false for what is no
// quantity, and for what nothing can have that many of.
func Quantity(value any) (q resource.Quantity, ok bool) {
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		text = v.String()
	default:
		return q, false
	}
	if len(text) > maxQuantity {
		return q, false
	}
	// A lone E is a suffix, that of 10^18.
	if _, exponent, found := strings.Cut(strings.ToLower(text), "e"); found && len(strings.TrimLeft(exponent, "+-0")) > maxExponent {
		return q, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// sum adds up amounts by resource; what is no quantity counts for nothing. Both are not written to.
func sum(a, b map[string]any) map[string]any {
	if len(b) == 0 {
		return a
	}
	out := maps.Clone(a)
	for name, value := range b {
		more, ok := Quantity(value)
		if !ok {
			continue
		}
		if q, ok := Quantity(a[name]); ok {
			q.Add(more)
			more = q
		}
		out[name] = more.String()
	}
	return out
}

// difference is what of a is not in b, by resource, and never less than nothing; resources of which either is not known
// are left out. Both are not written to.
func difference(a, b map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range b {
		rest, ok := Quantity(value)
		if !ok {
			continue
		}
		q, ok := Quantity(a[name])
		if !ok {
			continue
		}
		if q.Sub(rest); q.Sign() < 0 {
			q.Set(0)
		}
		out[name] = q.String()
	}
	return out
}
