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
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// kubectl runs the kubectl binary against one cluster.
type kubectl struct {
	path       string
	kubeconfig string
	// dir is the working directory. With it, arguments can be relative paths that a reader of the output could use.
	dir string
}

// output is the interleaved standard output and standard error of a kubectl run, with its exit code.
type output struct {
	text string
	code int
}

// run runs kubectl. It returns an error only if kubectl could not be run. A rejection by the API server gives an exit
// code.
func (k kubectl) run(ctx context.Context, args ...string) (output, error) {
	cmd := k.command(ctx, args)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	if ctx.Err() != nil {
		return output{}, context.Cause(ctx)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return output{}, fmt.Errorf("running %s: %w", k.path, err)
	}
	return output{text: text.String(), code: cmd.ProcessState.ExitCode()}, nil
}

// get returns the standard output of a run that must succeed.
func (k kubectl) get(ctx context.Context, args ...string) (string, error) {
	cmd := k.command(ctx, args)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("running %s: %w\n%s", commandLine(args), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

func (k kubectl) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.path, args...)
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig)
	// Ctrl-C must end the story, but not the kubectl processes that remove its objects.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// commandLine returns the command as a user would type it into a shell.
func commandLine(args []string) string {
	words := []string{"kubectl"}
	for _, arg := range args {
		words = append(words, quoted(arg))
	}
	return strings.Join(words, " ")
}

// quoted returns a word as a user would type it into a shell.
func quoted(word string) string {
	if !strings.ContainsAny(word, " \\'\"{}[]*?$&|;<>()!") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
