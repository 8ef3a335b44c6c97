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

package replication

import (
	"encoding/json"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/numeral"
)

// Quantity parses an amount of a resource: a number, or the text of a quantity such as "500m". ok is false for a value that is not a
// quantity, or is too expensive to parse.
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
	q, err := numeral.Quantity(text)
	return q, err == nil
}

// sum returns a with the quantities of b added, by resource. It ignores values of b that are not quantities, and changes neither map. The
// result may be a itself.
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

// difference returns a minus b by resource, and 0 where that is negative. It omits resources of which either map has no quantity, and
// changes neither map.
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
