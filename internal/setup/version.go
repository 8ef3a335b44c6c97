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

package setup

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

// version, commit, and date are the version, the commit, and the date of the commit of a release build, in which the linker sets them. They
// are empty in other builds.
var version, commit, date string

// Version returns a text for people with the version of this build, its commit and the commit's date as far as they are known, and the
// version of Go.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	return versionText(cmp.Or(version, info.Main.Version), info)
}

// versionText returns a version, followed by what the linker or else the Go tool recorded, in parentheses: the commit, with a note if files
// were changed since, its date, and the version of Go. What is unknown is left out. info must not be nil.
func versionText(version string, info *debug.BuildInfo) string {
	recorded := map[string]string{}
	for _, s := range info.Settings {
		recorded[s.Key] = s.Value
	}
	var parts []string
	if revision := cmp.Or(commit, recorded["vcs.revision"]); revision != "" {
		if commit == "" && recorded["vcs.modified"] == "true" {
			revision += " with changes"
		}
		parts = append(parts, "commit "+revision)
	}
	if when := cmp.Or(date, recorded["vcs.time"]); when != "" {
		parts = append(parts, when)
	}
	parts = append(parts, info.GoVersion)
	return fmt.Sprintf("%s (%s)", version, strings.Join(parts, ", "))
}
