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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// patience is the maximum time until the cluster has the expected state. On an idle machine it takes a second or two.
const patience = 3 * time.Minute

// stage runs the commands of the story, shows them with their output, and checks the output.
type stage struct {
	kubectl kubectl
	out     io.Writer
	bold    bool
	// pause waits for the reader before the next step; nil if the demo is not interactive.
	pause func(context.Context) error
}

func (s *stage) print(text string) { fmt.Fprint(s.out, text) }

func (s *stage) headline(i, n int, a act) {
	title := fmt.Sprintf("%d/%d  %s", i, n, a.title)
	if s.bold {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	fmt.Fprintf(s.out, "\n%s\n%s\n", title, a.why)
}

// tell runs the acts and pauses between them.
func (s *stage) tell(ctx context.Context, acts []act) error {
	for i, act := range acts {
		if i > 0 && s.pause != nil {
			if err := s.pause(ctx); err != nil {
				return err
			}
		}
		s.headline(i+1, len(acts), act)
		if err := act.play(ctx, s); err != nil {
			return fmt.Errorf("step %d of %d (%s) deviates: %w", i+1, len(acts), act.title, err)
		}
	}
	return nil
}

// show runs a command, prints it with its output, and returns the output.
func (s *stage) show(ctx context.Context, args []string) (output, error) {
	fmt.Fprintf(s.out, "\n$ %s\n", commandLine(args))
	o, err := s.kubectl.run(ctx, args...)
	if err != nil {
		return o, err
	}
	s.print(o.text)
	if o.text != "" && !strings.HasSuffix(o.text, "\n") {
		s.print("\n")
	}
	return o, nil
}

// showFile prints a file of the repository as if cat had printed it.
func (s *stage) showFile(name string) error {
	text, err := os.ReadFile(filepath.Join(s.kubectl.dir, name))
	if err != nil {
		return fmt.Errorf("showing a file: %w", err)
	}
	fmt.Fprintf(s.out, "\n$ cat %s\n%s", name, text)
	return nil
}

// succeeds shows a command that must succeed. Its output must contain each string in want.
func (s *stage) succeeds(ctx context.Context, want []string, args ...string) error {
	o, err := s.show(ctx, args)
	if err != nil {
		return err
	}
	if o.code != 0 {
		return fmt.Errorf("%s:\n  expected exit code 0\n  got %d: %s", commandLine(args), o.code, o.text)
	}
	return contains(args, o, want)
}

// fails shows a command that must fail. Its output must contain each string in want.
func (s *stage) fails(ctx context.Context, want []string, args ...string) error {
	o, err := s.show(ctx, args)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "(exit code %d)\n", o.code)
	if o.code == 0 {
		return fmt.Errorf("%s:\n  expected a refusal\n  got exit code 0: %s", commandLine(args), o.text)
	}
	return contains(args, o, want)
}

func contains(args []string, o output, want []string) error {
	for _, w := range want {
		if !strings.Contains(o.text, w) {
			return fmt.Errorf("%s:\n  expected output with %q\n  got %s", commandLine(args), w, o.text)
		}
	}
	return nil
}

// becomes runs a command silently until accept accepts its output. Then it shows the command.
func (s *stage) becomes(ctx context.Context, accept func(string) error, args ...string) error {
	if err := s.waitFor(ctx, accept, args...); err != nil {
		return err
	}
	o, err := s.show(ctx, args)
	if err != nil {
		return err
	}
	return accept(o.text)
}

func (s *stage) waitFor(ctx context.Context, accept func(string) error, args ...string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, patience, true, func(ctx context.Context) (bool, error) {
		o, err := s.kubectl.run(ctx, args...)
		if err != nil {
			return false, err
		}
		last = accept(o.text)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", commandLine(args), errors.Join(last, err))
	}
	return nil
}

// placed waits until a Deployment's placement lists exactly these clusters, and shows it.
func (s *stage) placed(ctx context.Context, deployment string, clusters ...string) error {
	return s.becomes(ctx, func(text string) error { return isPlacement(text, clusters) },
		"get", "deployment", deployment, "-n", storyNamespace, "-o", "jsonpath={.metadata.annotations."+clustersPath+"}")
}

// delivered waits until a Deployment's PropagationPolicy lists exactly these clusters, and shows the list.
func (s *stage) delivered(ctx context.Context, deployment string, clusters ...string) error {
	return s.becomes(ctx, func(text string) error { return isPlacement(text, clusters) }, "get", propagation, "-n", storyNamespace, "-o",
		`jsonpath={.items[?(@.spec.resourceSelectors[0].name=="`+deployment+`")].spec.placement.clusterAffinity.clusterNames}`)
}

func isPlacement(text string, clusters []string) error {
	var got []string
	expected := fmt.Sprintf("expected a placement on %s", strings.Join(clusters, " and "))
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return fmt.Errorf("\n  %s\n  got %q, which is not one: %w", expected, text, err)
	}
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(clusters))) {
		return fmt.Errorf("\n  %s\n  got %s", expected, text)
	}
	return nil
}
