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
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	setting := func(pairs ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{GoVersion: "go1.26.8"}
		for i := 0; i < len(pairs); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return info
	}
	tests := map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"Release": {setting("vcs.revision", "abc", "vcs.time", "2026-01-02T03:04:05Z", "vcs.modified", "false"), "v1 (commit abc, 2026-01-02T03:04:05Z, go1.26.8)"},
		"Changed": {setting("vcs.revision", "abc", "vcs.modified", "true"), "v1 (commit abc with changes, go1.26.8)"},
		"Archive": {setting(), "v1 (go1.26.8)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := versionText("v1", tc.info); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
