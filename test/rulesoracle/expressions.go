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

package rulesoracle

import "strings"

// expressions are the CEL expressions that the generator uses, each with its value for an object. The last one fails on objects
// that do not have the field.
var expressions = map[string]func(object map[string]any) truth{
	`object.kind == "Deployment"`: func(object map[string]any) truth { return truthOf(object["kind"] == "Deployment") },
	`has(object.spec) && has(object.spec.replicas) && object.spec.replicas > 2`: func(object map[string]any) truth {
		replicas, ok := specField(object, "replicas").(int64)
		return truthOf(ok && replicas > 2)
	},
	`has(object.metadata.labels) && "tier" in object.metadata.labels`: func(object map[string]any) truth {
		_, ok := metadata(object, "labels")["tier"]
		return truthOf(ok)
	},
	`has(object.spec) && has(object.spec.template) && object.spec.template.spec.containers.exists(c, c.image.startsWith("internal/"))`: func(object map[string]any) truth {
		template, _ := specField(object, "template").(map[string]any)
		containers, _ := specField(template, "containers").([]any)
		for _, item := range containers {
			container, _ := item.(map[string]any)
			if image, _ := container["image"].(string); strings.HasPrefix(image, "internal/") {
				return isTrue
			}
		}
		return notTrue
	},
	failingExpression: func(object map[string]any) truth {
		replicas, ok := specField(object, "replicas").(int64)
		if !ok {
			return failed
		}
		return truthOf(replicas >= 2)
	},
}

const failingExpression = `object.spec.replicas >= 2`

func specField(object map[string]any, name string) any {
	spec, _ := object["spec"].(map[string]any)
	return spec[name]
}
