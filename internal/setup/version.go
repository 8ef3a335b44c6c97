package setup

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

// The linker sets these variables in release builds.
var version, commit, date string

// Version returns the version of this build and, if the Go tool recorded them, its commit and the commit's date.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	return versionText(cmp.Or(version, info.Main.Version), info)
}

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
