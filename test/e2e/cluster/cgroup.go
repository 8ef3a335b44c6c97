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
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// hierarchies returns where the control groups are mounted: one place with version 2, several with version 1, of which a
// systemd of today has one more of version 2 that controls nothing.
func hierarchies() (v1, v2 []string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, nil, fmt.Errorf("looking for control groups: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		// The mount point is the fifth field; the type is the first one after the dash.
		mount, super, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(mount), strings.Fields(super)
		if len(fields) < 5 || len(kind) < 1 {
			continue
		}
		switch kind[0] {
		case "cgroup":
			v1 = append(v1, fields[4])
		case "cgroup2":
			v2 = append(v2, fields[4])
		}
	}
	slices.Sort(v1)
	slices.Sort(v2)
	if v1, v2 = slices.Compact(v1), slices.Compact(v2); len(v1)+len(v2) == 0 {
		return nil, nil, errors.New("no control groups are mounted, as on /sys/fs/cgroup")
	}
	return v1, v2, nil
}

// makeCgroup makes a control group in each hierarchy, for a kubelet to make its own in.
func makeCgroup(name string) error {
	v1, v2, err := hierarchies()
	if err != nil {
		return err
	}
	roots := v1
	if len(v1) == 0 {
		roots = v2
	}
	for _, root := range roots {
		// In cpuset a group takes no process before it has what its parent has.
		dir := root
		for part := range strings.SplitSeq(name, "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("making a control group: %w", err)
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				if text, err := os.ReadFile(filepath.Join(parent, file)); err == nil && len(v1) > 0 {
					if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
						return fmt.Errorf("giving a control group its processors: %w", err)
					}
				}
			}
		}
	}
	return nil
}

// removeCgroups removes a control group and all below it from each hierarchy. Its processes have been killed; the kernel
// takes a moment to forget them.
func removeCgroups(name string) error {
	v1, v2, err := hierarchies()
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		last = nil
		for _, root := range append(v1, v2...) {
			last = errors.Join(last, removeCgroup(filepath.Join(root, name)))
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("removing the control groups %s: %w", name, errors.Join(err, last))
	}
	return nil
}

func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if entry.IsDir() {
			err = errors.Join(err, removeCgroup(filepath.Join(dir, entry.Name())))
		}
	}
	if err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
