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

package language

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/suggest"
)

// MaxShare is the maximum of a share's numbers.
const MaxShare = 1_000_000

// ShareFields are the fields of a cluster's share of the replicas, if the value of RuleClusters is an object. A share has at most
// one of them.
var ShareFields = []string{"replicas", "weight"}

// ParseShare returns the numbers in a cluster's share, by the names of ShareFields. The value is decoded JSON: an object with at most one
// of these fields, whose value is an integer from 0 to MaxShare. Of an empty object, the result is empty. The error says what is wrong
// with the value.
func ParseShare(value any) (map[string]int64, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf(`must be an object such as {"weight": 2} or {}`)
	}
	if err := CheckShareFields(slices.Sorted(maps.Keys(object))); err != nil {
		return nil, err
	}
	share := make(map[string]int64, len(object))
	for name, field := range object {
		number := math.NaN()
		switch n := field.(type) {
		case json.Number:
			// An error leaves a number that is out of range or invalid.
			number, _ = n.Float64()
		case float64:
			number = n
		}
		if number != math.Trunc(number) || number < 0 || number > MaxShare {
			text, _ := json.Marshal(field)
			return nil, fmt.Errorf("%s must be an integer from 0 to %d, is %s", name, MaxShare, text)
		}
		share[name] = int64(number)
	}
	return share, nil
}

// CheckShareFields returns an error unless the names, which are sorted, may be the fields of a share: at most one, which is in ShareFields.
func CheckShareFields(names []string) error {
	for _, name := range names {
		if slices.Contains(ShareFields, name) {
			continue
		}
		hint := "."
		if near, ok := suggest.Nearest(name, ShareFields); ok {
			hint = fmt.Sprintf("; did you mean %s?", near)
		}
		return fmt.Errorf("unknown field %q%s Known are %s; give {} to a cluster without a share", name,
			hint, strings.Join(ShareFields, ", "))
	}
	if len(names) > 1 {
		return fmt.Errorf("has %s; give only one of them", strings.Join(names, " and "))
	}
	return nil
}
