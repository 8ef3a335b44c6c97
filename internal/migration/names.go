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

package migration

import (
	"crypto/sha256"
	"fmt"
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// nameAll gives each draft a name derived from its first module. It uses the shortest of <configmap>,
// <configmap>-<key>, and <namespace>-<configmap>-<key> that is valid and that no other draft would use. If there is
// none, it appends a hash of the module's source. Names do not depend on the order of the drafts.
func nameAll(drafts []*draft) {
	taken := map[string]bool{}
	open := drafts
	for _, form := range nameForms {
		wanted := map[string]int{}
		for _, d := range open {
			wanted[form(d.modules[0].source)]++
		}
		var next []*draft
		for _, d := range open {
			name := form(d.modules[0].source)
			if wanted[name] == 1 && !taken[name] && len(validation.IsDNS1123Subdomain(name)) == 0 {
				d.name, taken[name] = name, true
			} else {
				next = append(next, d)
			}
		}
		open = next
	}
	for _, d := range open {
		sum := sha256.Sum256([]byte(d.modules[0].source.String()))
		hash := fmt.Sprintf("%x", sum[:5])
		name := nameForms[len(nameForms)-1](d.modules[0].source)
		if most := validation.DNS1123SubdomainMaxLength - len(hash) - 1; len(name) > most {
			name = name[:most]
		}
		d.name = strings.TrimLeft(strings.Trim(name, "-.")+"-"+hash, "-")
	}
}

var nameForms = []func(Source) string{
	func(s Source) string { return labelOf(s.ConfigMap) },
	func(s Source) string { return labelOf(s.ConfigMap + "-" + stem(s.Key)) },
	func(s Source) string { return labelOf(s.Namespace + "-" + s.ConfigMap + "-" + stem(s.Key)) },
}

// stem returns a key of a ConfigMap without its extension, such as .rego.
func stem(key string) string {
	return strings.TrimSuffix(key, path.Ext(key))
}

var notInLabels = regexp.MustCompile(`[^a-z0-9]+`)

// labelOf converts a text to a name of lower-case letters, digits, and hyphens, which may be empty or too long. Names of objects may have
// dots, but with additional rules.
func labelOf(text string) string {
	return strings.Trim(notInLabels.ReplaceAllString(strings.ToLower(text), "-"), "-")
}
