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
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const (
	// roleVariable says which of the three processes a copy of the test binary is; the one that a user starts has none.
	roleVariable = "BERTH_E2E_ROLE"
	roleSuite    = "suite"
	roleNode     = "node"
	// dirVariable is the sandbox's directory, for the suite.
	dirVariable = "BERTH_E2E_DIR"

	// prefix begins the names of directories and control groups of all runs.
	prefix = "berth-e2e-"
)

// Sandbox is what a run has for itself.
type Sandbox struct {
	// Dir is on disk, and goes with the run.
	Dir string
}

// Logs is the directory that is kept if the run fails.
func (s Sandbox) Logs() string { return filepath.Join(s.Dir, "logs") }

// state is in memory: whatever ends the run ends it.
func (s Sandbox) state() string { return filepath.Join(s.Dir, "state") }

// cgroup is the control group, in each hierarchy, below which the nodes' are.
func (s Sandbox) cgroup() string { return filepath.Base(s.Dir) }

// Isolate runs a suite in namespaces of its own and returns the exit code. It belongs into TestMain, as the first thing:
// the test binary starts itself again, and the copy runs the suite. Before, outside and with the machine's own network,
// prepare puts into the sandbox what the suite needs. Interrupts go to the suite; what the run made is removed at its end,
// and what earlier runs left that were killed, too.
func Isolate(prepare func(context.Context, Sandbox) error, suite func(Sandbox) int) int {
	switch os.Getenv(roleVariable) {
	case roleNode:
		return complain(runNode())
	case roleSuite:
		s := Sandbox{Dir: os.Getenv(dirVariable)}
		if err := s.enter(); err != nil {
			return complain(fmt.Errorf("entering the sandbox: %w", err))
		}
		return suite(s)
	default:
		code, err := isolate(prepare)
		return max(code, complain(err))
	}
}

// complain returns an exit code.
func complain(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "Error:", err)
	return 1
}

func isolate(prepare func(context.Context, Sandbox) error) (code int, err error) {
	if err := CheckRequirements(); err != nil {
		return 1, err
	}
	// If what started us is killed, we are told to end.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0); errno != 0 {
		return 1, fmt.Errorf("asking to be told of the parent's end: %w", errno)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	if err := sweep(); err != nil {
		return 1, err
	}
	s, unlock, err := newSandbox()
	if err != nil {
		return 1, err
	}
	defer unlock()
	defer func() { err = errors.Join(err, s.leave(code != 0 || err != nil)) }()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	prepared := make(chan error, 1)
	go func() { prepared <- prepare(ctx, s) }()
	select {
	case err := <-prepared:
		if err != nil {
			return 1, err
		}
	case got := <-signals:
		cancel()
		return 1, errors.Join(fmt.Errorf("stopped by signal: %s", got), <-prepared)
	}
	return s.runSuite(signals)
}

// newSandbox makes a directory that is locked for as long as this process lives.
func newSandbox() (Sandbox, func(), error) {
	// Locked before it has the name that sweep looks for.
	dir, err := os.MkdirTemp("", "."+prefix)
	if err != nil {
		return Sandbox{}, nil, fmt.Errorf("making a directory for the run: %w", err)
	}
	lock, err := os.Open(dir)
	if err != nil {
		return Sandbox{}, nil, fmt.Errorf("opening the run's directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return Sandbox{}, nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	s := Sandbox{Dir: filepath.Join(filepath.Dir(dir), strings.TrimPrefix(filepath.Base(dir), "."))}
	for _, sub := range []string{"logs", "state"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return Sandbox{}, nil, fmt.Errorf("making the run's directory: %w", err)
		}
	}
	if err := os.Rename(dir, s.Dir); err != nil {
		return Sandbox{}, nil, fmt.Errorf("naming the run's directory: %w", err)
	}
	return s, func() { lock.Close() }, nil
}

// sweep removes what killed runs left: no process holds the lock of their directories.
func sweep() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return fmt.Errorf("looking for what earlier runs left: %w", err)
	}
	for _, dir := range dirs {
		lock, err := os.Open(dir)
		if err != nil {
			continue // Its own run has removed it.
		}
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			fmt.Fprintln(os.Stderr, "Removing what a killed run left:", dir)
			s := Sandbox{Dir: dir}
			err = errors.Join(removeCgroups(s.cgroup()), os.RemoveAll(dir))
		} else if errors.Is(err, syscall.EWOULDBLOCK) {
			err = nil
		}
		lock.Close()
		if err != nil {
			return fmt.Errorf("removing what an earlier run left: %w", err)
		}
	}
	return nil
}

// leave removes what the run made, but for the logs of one that failed.
func (s Sandbox) leave(failed bool) error {
	errs := []error{removeCgroups(s.cgroup())}
	if entries, err := os.ReadDir(s.Logs()); failed && err == nil && len(entries) > 0 {
		// By a name that sweep does not look for.
		kept := filepath.Join(filepath.Dir(s.Dir), "logs-of-"+filepath.Base(s.Dir))
		if err := os.Rename(s.Logs(), kept); err != nil {
			errs = append(errs, err)
		} else {
			fmt.Fprintln(os.Stderr, "The logs are kept in", kept)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(s.Dir))...)
}

// runSuite starts this program again as the first process of new namespaces.
func (s Sandbox) runSuite(signals <-chan os.Signal) (int, error) {
	// The kernel ties the parent-death signal to the thread that forks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), roleVariable+"="+roleSuite, dirVariable+"="+s.Dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: namespaces,
		Pdeathsig:  syscall.SIGKILL,
		// A terminal's interrupt would reach the suite twice, by itself and by us.
		Setsid: true,
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("starting the suite in namespaces of its own: %w", err)
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-signals:
				// Ginkgo knows this one: it cleans up, and reports.
				_ = cmd.Process.Signal(syscall.SIGINT)
			case <-done:
				return
			}
		}
	}()
	err := cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return 1, fmt.Errorf("waiting for the suite: %w", err)
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 1, fmt.Errorf("the suite ended: %s", cmd.ProcessState)
}

// namespaces are those that the suite and each node have for themselves.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// enter makes of fresh namespaces a place to work in.
func (s Sandbox) enter() error {
	// There is no way out, and what is started from here on is no copy of ours.
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", roleVariable, dirVariable} {
		if err := errors.Join(os.Unsetenv(name), os.Unsetenv(strings.ToLower(name))); err != nil {
			return fmt.Errorf("clearing the environment: %w", err)
		}
	}
	if err := privateMounts(); err != nil {
		return err
	}
	if err := mountTmpfs(s.state()); err != nil {
		return err
	}
	return ip("link set lo up")
}

// Hide puts an empty directory over dir, for this run alone; it makes dir if it is absent.
func (s Sandbox) Hide(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a directory to hide: %w", err)
	}
	return mountTmpfs(dir)
}

// privateMounts cuts the mounts off from those of the parent, and shows the new namespaces' own processes and network.
func privateMounts() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// A fresh /sys has the new network, and lacks the control groups: they are carried over.
	carried, err := os.MkdirTemp("", ".cgroup-")
	if err != nil {
		return fmt.Errorf("making a mount point: %w", err)
	}
	defer os.Remove(carried)
	if err := syscall.Mount("/sys/fs/cgroup", carried, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("keeping the control groups: %w", err)
	}
	if err := syscall.Mount("sysfs", "/sys", "sysfs", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /sys: %w", err)
	}
	if err := syscall.Mount(carried, "/sys/fs/cgroup", "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting the control groups: %w", err)
	}
	if err := syscall.Unmount(carried, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the control groups: %w", err)
	}
	return nil
}

func mountTmpfs(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounting memory at %s: %w", dir, err)
	}
	return nil
}

// ip runs the program of that name, with arguments in one line, and quotes what it says if it fails.
func ip(line string) error {
	path, err := program("ip")
	if err != nil {
		return err
	}
	if out, err := exec.Command(path, strings.Fields(line)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, strings.TrimSpace(string(out)))
	}
	return nil
}
