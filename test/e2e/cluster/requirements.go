//go:build linux

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

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// packages are Debian's and Ubuntu's names of what has the programs that nodes need.
var packages = map[string]string{
	"containerd": "containerd",
	"ctr":        "containerd",
	"ip":         "iproute2",
	"nft":        "nftables",
	"runc":       "runc",
}

// pluginPackage is that of the CNI plugins, and pluginDirs are where Debian and other distributions install them.
const pluginPackage = "containernetworking-plugins"

var pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin"}

// CheckRequirements returns an error that says what the machine lacks, and how to get it.
func CheckRequirements() error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root, for namespaces and control groups: run sudo --preserve-env=PATH make e2e")
	}
	var missing, install []string
	for name, from := range packages {
		if _, err := program(name); err != nil {
			missing, install = append(missing, name), append(install, from)
		}
	}
	if _, err := pluginDir(); err != nil {
		missing, install = append(missing, "the CNI plugins"), append(install, pluginPackage)
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	slices.Sort(install)
	return fmt.Errorf("not on this machine: %s; on Debian and Ubuntu run apt-get install --no-install-recommends %s",
		strings.Join(missing, ", "), strings.Join(slices.Compact(install), " "))
}

// program finds a program as root's login shell would: sudo's PATH, or cron's, lacks the directories for administrators.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not on this machine", name)
}

func pluginDir() (string, error) {
	for _, dir := range pluginDirs {
		if _, err := exec.LookPath(filepath.Join(dir, "ptp")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no CNI plugins in %s", strings.Join(pluginDirs, " or "))
}
