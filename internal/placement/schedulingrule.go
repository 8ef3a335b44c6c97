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

package placement

import (
	"fmt"

	"github.com/berth-dev/berth/internal/podscheduling"
)

// parseScheduling converts the value of the rule scheduling to values by merge key.
func parseScheduling(value any) (map[string]string, error) {
	if value == nil {
		return nil, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, &ContractError{fieldScheduling, fmt.Sprintf("must be an object, is %s", TypeName(value))}
	}
	spec, err := podscheduling.Parse(object)
	if err != nil {
		return nil, &ContractError{fieldScheduling, err.Error()}
	}
	return podscheduling.FlattenPodSpec(spec)
}
