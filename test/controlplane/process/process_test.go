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

package process_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/test/controlplane/process"
)

// parentVariable makes TestParent a process that starts a child in that directory and waits to be killed.
const parentVariable = "BERTH_TEST_PARENT_DIR"

func TestParent(t *testing.T) {
	dir := os.Getenv(parentVariable)
	if dir == "" {
		t.Skip("the other half of TestChildrenDieWithAParentThatIsKilled")
	}
	group, err := process.NewGroup(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := startTail(group); err != nil {
		t.Fatal(err)
	}
	if err := waitRecorded(t.Context(), dir, 1); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stdout, "started")
	select {}
}

// startTail starts a child that does nothing until it is told to end.
func startTail(group *process.Group) (*process.Process, error) {
	tail, err := exec.LookPath("tail")
	if err != nil {
		return nil, err
	}
	return group.Start("tail", tail, "-f", group.LogPath("tail"))
}

func waitRecorded(ctx context.Context, dir string, n int) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return len(process.Recorded(dir)) == n, nil
	})
}

func TestChildrenDieWithAParentThatIsKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's state")
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestParent$")
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "started" {
		t.Fatalf("the parent says %q (%v), want started", line, err)
	}
	if _, err := process.NewGroup(dir, false); err == nil {
		t.Error("a second group was made in a directory in use")
	}

	pids := process.Recorded(dir)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, err := os.Stat(dir)
		return os.IsNotExist(err), nil
	})
	if err != nil {
		t.Errorf("waiting for the guard to remove the temporary directory: %v", err)
	}
	for name, pid := range pids {
		// A process that was sent SIGKILL ends when the kernel schedules it, which takes a while on a busy machine.
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return !process.Mentions(pid, dir), nil
		})
		if err != nil {
			t.Errorf("%s (process %d) outlives its parent", name, pid)
		}
	}
}

// TestMentionsInTheMidstOfExec looks at a process that does nothing but become itself again.
func TestMentionsInTheMidstOfExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(t.Context(), script)
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		if !process.Mentions(again.Process.Pid, script) {
			t.Fatalf("look %d: the process does not mention %s", i, script)
		}
	}
	if err := again.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = again.Wait()
	if process.Mentions(again.Process.Pid, script) {
		t.Error("a process that is gone mentions something")
	}
}

func TestStopAndClose(t *testing.T) {
	dir := t.TempDir()
	group, err := process.NewGroup(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	stopped, err := startTail(group)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := stopped.Stop(time.Minute); err != nil {
			t.Errorf("stopping: %v", err)
		}
	}
	if stopped.Err() == nil {
		t.Error("a process that was ended by a signal has no error")
	}

	left, err := startTail(group)
	if err != nil {
		t.Fatal(err)
	}
	if err := waitRecorded(t.Context(), dir, 1); err != nil {
		t.Fatalf("waiting for the process to be recorded: %v", err)
	}
	if err := group.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	<-left.Done()
	if got := process.Recorded(dir); len(got) > 0 {
		t.Errorf("still recorded: %v", got)
	}
}
