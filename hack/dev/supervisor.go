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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

const (
	superviseCommand = "supervise"

	// downTimeout exceeds the sum of all stop timeouts. After it, down kills the supervisor.
	downTimeout = 10 * time.Minute

	upDescription = "make dev-up installs Berth there; make dev-down removes it again, with every policy and quota."

	// messagesFD and lockFD are the file descriptors that `up` passes to the supervisor, after standard input, output, and
	// error.
	messagesFD = 3
	lockFD     = 4
)

// supervisor is the detached process that runs a development cluster, and the state that the other commands share with
// it. It runs as long as the lock of its directory is held, whatever process id a file there has.
type supervisor struct {
	root string
	dir  string
	// manager is the path of the operator's binary.
	manager string
}

// message is a message from the supervisor to `up`, encoded as one JSON document.
type message struct {
	Progress string `json:"progress,omitempty"`
	Error    string `json:"error,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
}

// state is stored when everything is ready. For a user's cluster it is also stored before the installation, so that
// `down` knows what to remove even if the supervisor was killed.
type state struct {
	PID        int    `json:"pid"`
	Kubeconfig string `json:"kubeconfig"`
	Kubectl    string `json:"kubectl"`
	// OwnCluster reports whether the cluster is the user's.
	OwnCluster bool `json:"ownCluster,omitempty"`
	// OperatorHealth is the URL of the operator's readiness probe. It is empty until everything is ready.
	OperatorHealth string `json:"operatorHealth,omitempty"`
}

func (s supervisor) path(name string) string { return filepath.Join(s.dir, name) }

// up starts a supervisor unless one is running. It returns when everything is ready, or when everything has stopped.
func (s supervisor) up(ctx context.Context) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	lock, err := s.lock()
	if errors.Is(err, errLocked) {
		state, err := s.readReadyState()
		if err != nil {
			return fmt.Errorf("another command is starting or stopping the development cluster; wait for it, or run make dev-down: %w", err)
		}
		fmt.Println("Already up.")
		s.explain(state)
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if state, err := s.readState(); err == nil && state.OwnCluster {
		return fmt.Errorf("an earlier make dev-up was killed before it removed Berth from the cluster of %s: run make dev-down first",
			state.Kubeconfig)
	}
	if err := s.clean(); err != nil {
		return err
	}
	own, err := chooseCluster(ctx, s.root, s.dir, standardTerminal(), upDescription)
	if err != nil {
		return err
	}

	child, messages, err := s.spawn(lock, own != nil)
	if err != nil {
		return err
	}
	defer messages.Close()
	// If the start is interrupted, the supervisor stops what it has started.
	interrupted := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer interrupted()
	failure := ""
	for decoder := json.NewDecoder(messages); ; {
		var m message
		if err := decoder.Decode(&m); err != nil {
			break // The supervisor ended.
		}
		switch {
		case m.Progress != "":
			fmt.Println(m.Progress)
		case m.Error != "":
			failure = m.Error
		case m.Ready:
			state, err := s.readReadyState()
			if err != nil {
				return err
			}
			s.explain(state)
			return nil
		}
	}
	err = child.Wait()
	if failure == "" {
		failure = fmt.Sprintf("the supervisor ended (%v)\n--- the end of %s:\n%s", err, s.path("supervisor.log"),
			process.Tail(s.path("supervisor.log")))
	}
	return fmt.Errorf("starting the development cluster: %s", failure)
}

// spawn starts the supervisor in a new session, passes it the lock, and returns a reader for its messages. If
// ownCluster is true, the supervisor uses the user's cluster, whose kubeconfig is in the state directory.
func (s supervisor) spawn(lock *os.File, ownCluster bool) (*exec.Cmd, io.ReadCloser, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding this program: %w", err)
	}
	log, err := os.Create(s.path("supervisor.log"))
	if err != nil {
		return nil, nil, fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer log.Close()
	messages, sender, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer sender.Close()
	args := []string{superviseCommand, "-dir", s.dir, "-manager", s.manager}
	if ownCluster {
		args = append(args, "-cluster")
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = s.root
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{sender, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		messages.Close()
		return nil, nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	return cmd, messages, nil
}

// supervise runs in the detached process. It starts everything, reports to `up`, and stops everything when ctx ends.
func (s supervisor) supervise(ctx context.Context, ownCluster bool) error {
	// The holder of the lock is assumed to be the supervisor, so child processes must not inherit it.
	syscall.CloseOnExec(messagesFD)
	syscall.CloseOnExec(lockFD)
	messages := os.NewFile(messagesFD, "messages")
	lock := os.NewFile(lockFD, "lock")
	if messages == nil || lock == nil {
		return errors.New("supervise is run by up, not by hand")
	}
	defer lock.Close()
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("writing the process id: %w", err)
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("writing the process id: %w", err)
	}

	encoder := json.NewEncoder(messages)
	// Ignore errors: `up` may have been killed, but the development cluster must start anyway.
	send := func(m message) { _ = encoder.Encode(m) }
	var started atomic.Bool
	o := environmentOptions{root: s.root, dir: s.dir, manager: s.manager, controllers: true, progress: func(line string) {
		log.Println(line)
		if !started.Load() {
			send(message{Progress: line})
		}
	}}
	if ownCluster {
		path, err := controlplane.Binary("kubectl")
		if err != nil {
			return err
		}
		o.cluster = &kubectl{path: path, kubeconfig: s.path("kubeconfig"), dir: s.root}
		if err := s.writeState(state{Kubeconfig: o.cluster.kubeconfig, Kubectl: path, OwnCluster: true}); err != nil {
			send(message{Error: err.Error()})
			return err
		}
	}
	e, err := startEnvironment(ctx, o)
	if err == nil {
		started.Store(true) // From here on, the operator's restarts are only logged.
		err = s.writeState(state{
			Kubeconfig: e.kubectl.kubeconfig, Kubectl: e.kubectl.path, OwnCluster: ownCluster, OperatorHealth: e.operator.healthURL,
		})
		if err != nil {
			err = errors.Join(err, e.stop())
		}
	}
	if err != nil {
		err = s.cleanUnlessLeft(err)
		send(message{Error: err.Error()})
		return err
	}
	log.Println("Ready")
	send(message{Ready: true})
	messages.Close()

	<-ctx.Done()
	log.Println("Stopping")
	return s.cleanUnlessLeft(e.stop())
}

// cleanUnlessLeft removes the state, unless err reports that something is left in a user's cluster. In that case, down
// tries to remove it again. It returns err, joined with errors of the removal.
func (s supervisor) cleanUnlessLeft(err error) error {
	if errors.Is(err, errNotRemoved) {
		return fmt.Errorf("%w\nRun make dev-down to try again", err)
	}
	return errors.Join(err, s.clean())
}

// writeState stores the state of this process.
func (s supervisor) writeState(st state) error {
	st.PID = os.Getpid()
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	if err := os.WriteFile(s.path("pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing the process id: %w", err)
	}
	if err := os.WriteFile(s.path("state.json"), text, 0o600); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

func (s supervisor) readState() (state, error) {
	var st state
	text, err := os.ReadFile(s.path("state.json"))
	if err != nil {
		return st, fmt.Errorf("reading the state: %w", err)
	}
	if err := json.Unmarshal(text, &st); err != nil {
		return st, fmt.Errorf("decoding %s: %w", s.path("state.json"), err)
	}
	return st, nil
}

// readReadyState returns the state. It returns an error until everything is ready.
func (s supervisor) readReadyState() (state, error) {
	st, err := s.readState()
	if err == nil && st.OperatorHealth == "" {
		err = errors.New("the operator is not ready yet")
	}
	return st, err
}

// clean removes the state files and credentials. It removes the state last, because the state says what there is to
// remove.
func (s supervisor) clean() error {
	for _, file := range []string{s.path("pid"), operatorKubeconfigFile(s.dir), s.path("kubeconfig"), s.path("state.json")} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing what an earlier run left: %w", err)
		}
	}
	return nil
}

// down stops the supervisor, removes Berth from the cluster if that is the user's, and deletes the state. It returns when all processes of
// the supervisor are gone.
func (s supervisor) down(ctx context.Context) error {
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Println("Nothing is up.")
		return nil
	}
	lock, err := s.lock()
	idle := err == nil
	if err != nil && !errors.Is(err, errLocked) {
		return err
	}
	state, stateErr := s.readState()
	if !idle {
		if lock, err = s.stopSupervisor(ctx); err != nil {
			return err
		}
	}
	defer lock.Close()
	if err := s.sweep(); err != nil {
		return err
	}
	// A supervisor that ends normally removes Berth from the cluster, and then the state.
	if left, err := s.readState(); err == nil && left.OwnCluster {
		if err := removeInstallation(ctx, kubectl{path: left.Kubectl, kubeconfig: left.Kubeconfig, dir: s.root}); err != nil {
			return err
		}
	}
	if err := s.clean(); err != nil {
		return err
	}
	switch {
	case stateErr == nil && state.OwnCluster:
		fmt.Println("Stopped, and removed from the cluster.")
	case idle:
		fmt.Println("Nothing is up.")
	default:
		fmt.Println("Stopped.")
	}
	return nil
}

// stopSupervisor stops the supervisor and returns its lock.
func (s supervisor) stopSupervisor(ctx context.Context) (*os.File, error) {
	text, err := os.ReadFile(s.path("lock"))
	if err != nil {
		return nil, fmt.Errorf("reading the supervisor's process id: %w", err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || !process.Mentions(pid, superviseCommand) || !process.Mentions(pid, s.dir) {
		return nil, fmt.Errorf("%s is locked, but not by a supervisor (process %q): another command is at work there, try again when it is done",
			s.path("lock"), text)
	}
	var lock *os.File
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("stopping the supervisor (process %d): %w", pid, err)
		}
		err = wait.PollUntilContextTimeout(ctx, pollInterval, downTimeout, true, func(context.Context) (bool, error) {
			var err error
			lock, err = s.lock()
			if errors.Is(err, errLocked) {
				return false, nil
			}
			return err == nil, err
		})
		if err == nil {
			return lock, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("waiting for the supervisor (process %d) to stop: %w", pid, err)
}

// sweep stops processes that a killed supervisor may have left.
func (s supervisor) sweep() error {
	return errors.Join(process.Sweep(operatorDir(s.dir)), process.Sweep(s.dir))
}

// status prints which parts are ready. It returns an error if not all are.
func (s supervisor) status(ctx context.Context, out io.Writer) error {
	lock, err := s.lock()
	if err == nil {
		lock.Close()
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return errors.New("nothing is up: run make dev-up")
	}
	if !errors.Is(err, errLocked) {
		return err
	}
	st, err := s.readReadyState()
	if err != nil {
		return fmt.Errorf("the development cluster is starting or stopping: %w", err)
	}
	k := kubectl{path: st.Kubectl, kubeconfig: st.Kubeconfig, dir: s.root}
	_, serverErr := k.get(ctx, "get", "--raw=/readyz")
	operatorErr := ready(ctx, st.OperatorHealth)
	for _, part := range []struct {
		name string
		err  error
	}{{"API server", serverErr}, {"Operator", operatorErr}} {
		verdict := "ready"
		if part.err != nil {
			verdict = part.err.Error()
		}
		fmt.Fprintf(out, "%-11s %s\n", part.name, verdict)
	}
	if serverErr != nil || operatorErr != nil {
		return fmt.Errorf("not all is ready: see the logs in %s, or run make dev-down dev-up", s.dir)
	}
	s.explain(st)
	return nil
}

func (s supervisor) explain(st state) {
	command := st.Kubectl
	if rel, err := filepath.Rel(s.root, st.Kubectl); err == nil && !strings.HasPrefix(rel, "..") {
		command = rel
	}
	logs := operatorLog(s.dir) + ", " + s.path("supervisor.log")
	if !st.OwnCluster {
		logs += ", " + s.path("logs")
	}
	fmt.Printf("\nBerth is ready.\n\n  export KUBECONFIG=%s\n  %s get placementpolicies.placement.berth.dev\n\nLogs: %s\nStop: make "+
		"dev-down\n", st.Kubeconfig, command, logs)
}

// errLocked is the error of lock if another process holds the lock.
var errLocked = errors.New("locked")

// lock takes the lock of the state directory. Closing the file, and every copy of it in child processes, releases the
// lock.
func (s supervisor) lock() (*os.File, error) {
	f, err := os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("locking %s: %w", s.path("lock"), err)
	}
	return f, nil
}
