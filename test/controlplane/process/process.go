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

// Package process runs child processes that never outlive the process that started them, not even if that one is
// killed without a chance to clean up.
//
// Linux's parent-death signal would not do: it is tied to the thread that forked, it does not exist elsewhere, and
// nothing lets envtest set it. So each group has a guard, a shell that waits for the end of its standard input; the
// kernel closes that pipe when the parent is gone, whatever the reason, and the guard then kills the recorded children.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	pollInterval = 50 * time.Millisecond
	// killTimeout is how long a killed process may take to vanish; only one that is stuck in the kernel takes longer.
	killTimeout = 10 * time.Second
	// logTail is how much of a log is shown with an error.
	logTail = 4 << 10
)

// guardScript gets the group's directory, and as second argument the directory to remove, or nothing. It kills only what
// mentions the group's directory in its command line: a process id that is recorded may have been given to another since.
// A process that is about to become another program has no command line for a moment, and is looked at again.
const guardScript = `
while read -r _; do :; done
for f in "$1"/run/*.pid; do
	[ -e "$f" ] || continue
	pid=$(cat "$f")
	while :; do
		if [ -r "/proc/$pid/cmdline" ]; then line=$(tr '\0' ' ' <"/proc/$pid/cmdline"); else line=$(ps -o command= -p "$pid"); fi 2>/dev/null
		if [ -n "$line" ] || ! [ -e "/proc/$pid/exe" ]; then break; fi
	done
	case "$line" in *"$1/"*) kill -KILL "$pid" ;; esac
	rm -f "$f"
done
[ -z "$2" ] || rm -rf "$2"
`

// Group is a set of processes that share a directory: their logs are in its logs, their process ids in its run. Every
// process of a group must have a path below that directory among its arguments; that is how it is recognised. A Group is
// safe for concurrent use.
type Group struct {
	dir   string
	guard *exec.Cmd
	// guardInput is held open for as long as the group lives.
	guardInput io.Closer
}

// NewGroup starts an empty group in dir, which is made if it is absent. If temporary, dir is removed when the group is
// closed or its parent dies. It fails while the processes of an earlier group run in dir.
func NewGroup(dir string, temporary bool) (*Group, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving the state directory: %w", err)
	}
	if pids := Recorded(dir); len(pids) > 0 {
		return nil, fmt.Errorf("%s is in use by running processes (%v): stop them first", dir, pids)
	}
	for _, sub := range []string{"run", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("making the state directory: %w", err)
		}
	}
	remove := ""
	if temporary {
		remove = dir
	}
	guard := exec.Command("/bin/sh", "-c", guardScript, "guard", dir, remove)
	// Its own session, so that neither Ctrl-C nor a signal to our process group takes the guard with us.
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := guard.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to the guard: %w", err)
	}
	if err := guard.Start(); err != nil {
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	return &Group{dir: dir, guard: guard, guardInput: input}, nil
}

// Dir returns the absolute path of the group's directory.
func (g *Group) Dir() string { return g.dir }

// LogPath returns the path of a process's log.
func (g *Group) LogPath(name string) string { return filepath.Join(g.dir, "logs", name+".log") }

// OpenLog opens a process's log for appending.
func (g *Group) OpenLog(name string) (*os.File, error) {
	f, err := os.OpenFile(g.LogPath(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	return f, nil
}

// Wrap returns the path of a program that runs the one at path as a member of the group, for those who start it
// themselves. Whatever starts it must reap it.
func (g *Group) Wrap(name, path string) (string, error) {
	// Recorded by the process itself just before it becomes the program, so that there is no moment at which it runs and
	// the guard does not know. A call for --help ends by itself.
	script := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = --help ] || echo $$ >%s\nexec %s \"$@\"\n", quote(g.pidPath(name)), quote(path))
	wrapper := filepath.Join(g.dir, "run", name)
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil {
		return "", fmt.Errorf("writing the wrapper of %s: %w", name, err)
	}
	return wrapper, nil
}

// Start starts the program at path as a member of the group, in a process group of its own, its output going to the log.
// One of the arguments must name something below the group's directory. The process is reaped when it exits.
func (g *Group) Start(name, path string, args ...string) (*Process, error) {
	wrapper, err := g.Wrap(name, path)
	if err != nil {
		return nil, err
	}
	log, err := g.OpenLog(name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(wrapper, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{name: name, process: cmd.Process, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// Kill kills every process of the group without waiting for its end.
func (g *Group) Kill() { kill(g.dir) }

// Close kills what is left of the group, waits until nothing is, and removes the directory if it is temporary. Nothing
// may be started after it. It must be called once.
func (g *Group) Close() error {
	err := Sweep(g.dir)
	closeErr := g.guardInput.Close()
	// The guard's exit code says only what the last process it looked at was.
	_ = g.guard.Wait()
	return errors.Join(err, closeErr)
}

func (g *Group) pidPath(name string) string { return filepath.Join(g.dir, "run", name+".pid") }

// Process is a member of a group. It is safe for concurrent use.
type Process struct {
	name    string
	process *os.Process
	done    chan struct{}
	// err is set before done is closed.
	err error
}

// Name returns the name that the process was started under.
func (p *Process) Name() string { return p.name }

// Done is closed when the process has ended and is reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended, nil if with exit code 0. Only after Done is closed.
func (p *Process) Err() error { return p.err }

// Stop asks the process to end, and kills it if it has not within the time given. It returns when the process is gone
// and is harmless on one that is.
func (p *Process) Stop(timeout time.Duration) error {
	for _, step := range []struct {
		signal  syscall.Signal
		timeout time.Duration
	}{{syscall.SIGTERM, timeout}, {syscall.SIGKILL, killTimeout}} {
		if err := p.process.Signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping %s: %w", p.name, err)
		}
		timer := time.NewTimer(step.timeout)
		defer timer.Stop()
		select {
		case <-p.done:
			return nil
		case <-timer.C:
		}
	}
	return fmt.Errorf("stopping %s: process %d outlives SIGKILL", p.name, p.process.Pid)
}

// Kill ends the process without a chance to clean up. It returns when the process is gone and is harmless on one that is.
func (p *Process) Kill() error {
	if err := p.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// Recorded returns the ids of the running processes of a group by their names, whichever process started the group.
func Recorded(dir string) map[string]int {
	pids := map[string]int{}
	files, err := filepath.Glob(filepath.Join(dir, "run", "*.pid"))
	if err != nil {
		return pids // The pattern is malformed: dir is the name of no directory.
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // Removed between the two looks.
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && Mentions(pid, dir+string(filepath.Separator)) {
			pids[strings.TrimSuffix(filepath.Base(file), ".pid")] = pid
		}
	}
	return pids
}

// Sweep kills every process of a group that still runs, whichever process started the group, and returns when they are
// gone.
func Sweep(dir string) error {
	kill(dir)
	err := wait.PollUntilContextTimeout(context.Background(), pollInterval, killTimeout, true, func(context.Context) (bool, error) {
		return len(Recorded(dir)) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the processes in %s to end (%v are left): %w", dir, Recorded(dir), err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "run", "*.pid"))
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the record of an ended process: %w", err)
		}
	}
	return nil
}

func kill(dir string) {
	for _, pid := range Recorded(dir) {
		// A process that ended meanwhile is what we want.
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Mentions reports whether there is a process of that id and its command line contains text. An ended process that
// waits to be reaped has no command line.
func Mentions(pid int, text string) bool {
	return bytes.Contains(commandLine(pid), []byte(text))
}

// commandLine returns the arguments of a process, or nothing if there is none of that id. On Linux a process that
// becomes another program has no arguments for a moment, which is not taken for an answer: unlike a process that has
// ended, it has a program.
func commandLine(pid int) []byte {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		line, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return nil
		}
		return line
	}
	var line []byte
	// The only error is that the time is over, and a process that is stuck for so long is none to be waited for.
	_ = wait.PollUntilContextTimeout(context.Background(), time.Millisecond, killTimeout, true, func(context.Context) (bool, error) {
		line, _ = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if len(line) > 0 {
			return true, nil
		}
		_, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
		return err != nil, nil
	})
	return line
}

// Tail returns the last lines of a log, to be shown with an error.
func Tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer f.Close()
	cut := false
	if info, err := f.Stat(); err == nil && info.Size() > logTail {
		_, err = f.Seek(-logTail, io.SeekEnd)
		cut = err == nil
	}
	text, err := io.ReadAll(io.LimitReader(f, logTail))
	if err != nil {
		return fmt.Sprintf("(reading the log: %v)", err)
	}
	if cut {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return strings.TrimRight(string(text), "\n")
}

// quote makes s one word of a shell script.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
