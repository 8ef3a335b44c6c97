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

package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestRender tests rendering with small inputs. The catalog of the current release is tested in test/bundle.
func TestRender(t *testing.T) {
	csv := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "berth.v1.2.3"}, "spec": map[string]any{"version": "1.2.3"},
	}}
	const head = "{schema: olm.semver, generateMajorChannels: true, "
	const old, current = "{image: 'r/bundle:v1.2.2'}", "{image: 'r/bundle:v1.2.3'}"
	for name, c := range map[string]struct{ template, want, refused string }{
		"default channel is the most trusted": {
			template: head + "candidate: {bundles: [" + current + "]}, stable: {bundles: [" + current + "]}}",
			want:     "defaultChannel: stable-v1\n",
		},
		"two releases":     {template: head + "stable: {bundles: [" + old + ", " + current + "]}}", refused: "have opm render the template"},
		"another release":  {template: head + "stable: {bundles: [" + old + "]}}", refused: "have opm render the template"},
		"no release":       {template: head + "}", refused: "has no release"},
		"another template": {template: "{schema: olm.template.basic}", refused: "must be of schema olm.semver"},
	} {
		t.Run(name, func(t *testing.T) {
			var parsed template
			if err := yaml.UnmarshalStrict([]byte(c.template), &parsed); err != nil {
				t.Fatal(err)
			}
			out, err := render(parsed, csv)
			if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want %q", err, c.refused)
			}
			if c.refused == "" && (err != nil || !strings.Contains(string(out), c.want)) {
				t.Errorf("got %v and %s, want %q", err, out, c.want)
			}
		})
	}
}
