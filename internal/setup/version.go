package setup

import (
	"cmp"
	"runtime/debug"
)

// version is set by the linker in release builds.
var version string

// Version is the version of this build.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(version, info.Main.Version)
	}
	return cmp.Or(version, "unknown")
}
