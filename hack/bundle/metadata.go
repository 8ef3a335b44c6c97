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
	"fmt"
	"slices"
	"strings"
)

// facts returns the bundle's metadata, which is written to annotations.yaml and to the labels of the bundle's image.
func facts(r release) [][2]string {
	const bundle, test = "operators.operatorframework.io.bundle.", "operators.operatorframework.io.test."
	return [][2]string{
		{bundle + "mediatype.v1", "registry+v1"},
		{bundle + "manifests.v1", "manifests/"},
		{bundle + "metadata.v1", "metadata/"},
		{bundle + "package.v1", packageName},
		{bundle + "channels.v1", r.channel},
		{bundle + "channel.default.v1", strings.Split(r.channel, ",")[0]},
		{test + "mediatype.v1", "scorecard+v1"},
		{test + "config.v1", "tests/scorecard/"},
	}
}

func annotations(r release) []byte {
	lines := []string{"annotations:"}
	for _, f := range facts(r) {
		lines = append(lines, fmt.Sprintf("  %s: %s", f[0], f[1]))
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// dockerfile returns the bundle's Dockerfile. As with operator-sdk, the project's folder is the build context.
func dockerfile(r release) []byte {
	lines := []string{"FROM scratch", ""}
	for _, f := range facts(r) {
		lines = append(lines, fmt.Sprintf("LABEL %s=%s", f[0], f[1]))
	}
	lines = slices.Concat(lines, []string{
		"",
		"COPY bundle/manifests /manifests/",
		"COPY bundle/metadata /metadata/",
		"COPY bundle/tests/scorecard /tests/scorecard/",
	})
	return []byte(strings.Join(lines, "\n") + "\n")
}
