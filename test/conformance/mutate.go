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

package conformance

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// odd are values at which engines may part.
var odd = []any{
	nil, true, false, "", "a", "true", "1", "2", "1.0", "eu", "eu-1", "gold", "web", "shop", "<&>", "ü", "\u2028", "a/b", "a~1b", "{}",
	`{"clusters": {"x": 1}}`, "Not A Name",
	int64(0), int64(1), int64(-1), int64(2), int64(10), int64(math.MaxInt64), int64(math.MinInt64), int64(1<<53 + 1),
	0.0, 1.0, 0.5, -0.25, 1e8, 1e21, 1e-7, 1e300, 0.1, math.Copysign(0, -1),
	[]any{}, map[string]any{},
}

// Mutate returns a JSON value of Go that has been made of another one, which stays as it is: a few of its parts are
// others, or gone, or are twice.
func Mutate(random *rand.Rand, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch random.IntN(12) {
			case 0:
			case 1:
				out[name] = other(random)
			case 2:
				if key, ok := other(random).(string); ok {
					out[key] = v[name]
				}
				out[name] = v[name]
			default:
				out[name] = Mutate(random, v[name])
			}
		}
		return out
	case []any:
		out := []any{}
		for _, member := range v {
			switch random.IntN(8) {
			case 0:
			case 1:
				out = append(out, other(random), member)
			case 2:
				out = append(out, member, member)
			default:
				out = append(out, Mutate(random, member))
			}
		}
		return out
	default:
		if random.IntN(6) == 0 {
			return other(random)
		}
		return v
	}
}

func other(random *rand.Rand) any {
	value := odd[random.IntN(len(odd))]
	switch random.IntN(6) {
	case 0:
		return []any{value}
	case 1:
		return map[string]any{"a": value}
	}
	return value
}
