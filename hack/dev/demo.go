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
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// demoOptions configure a demo.
type demoOptions struct {
	root string
	// dir is the directory for state and logs.
	dir string
	// manager is the path of the operator's binary.
	manager  string
	terminal terminal
	// oneshot stops everything at the end of the story, instead of when ctx ends.
	oneshot bool
}

const demoDescription = `The demo installs Berth there, plays its story in namespaces of its own, and removes everything at the end.`

// demo starts an environment, runs the story, and checks every step. It returns an error if it is interrupted before
// the end of the story. It removes everything that it created before it returns.
func demo(ctx context.Context, o demoOptions) (err error) {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	if o.oneshot {
		o.terminal.interactive = false
	}
	out := o.terminal.out
	own, err := chooseCluster(ctx, o.root, o.dir, o.terminal, demoDescription, storyObjects...)
	if err != nil {
		return err
	}
	missing := definitionFiles
	if own != nil {
		if missing, err = missingDefinitions(ctx, *own); err != nil {
			return err
		}
	}
	e, err := startEnvironment(ctx, environmentOptions{
		root: o.root, dir: o.dir, manager: o.manager, cluster: own, progress: func(line string) { fmt.Fprintln(out, line) },
	})
	if err != nil {
		return fmt.Errorf("starting the demo: %w", err)
	}
	defer func() {
		fmt.Fprintln(out, "\nStopping everything")
		if own != nil {
			// ctx may have ended already.
			err = errors.Join(err, removeStory(context.WithoutCancel(ctx), *own, missing))
		}
		err = errors.Join(err, e.stop())
	}()

	s := &stage{kubectl: e.kubectl, out: out, bold: o.terminal.bold}
	if o.terminal.interactive {
		s.pause = func(ctx context.Context) error {
			_, err := o.terminal.ask(ctx, "\nPress Enter to go on. ")
			return err
		}
	}
	if err := s.tell(ctx, story(missing)); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return fmt.Errorf("%w\nThe logs are %s and those in %s", err, operatorLog(o.dir), filepath.Join(o.dir, "logs"))
	}
	s.print("\nThe story is told: every step came out as it should.\n")
	if o.oneshot {
		return nil
	}
	s.print(fmt.Sprintf(`
Play on in another terminal, from %s:

  export KUBECONFIG=%s
  %s apply -f %s

Ctrl-C stops everything.
`, o.root, e.kubectl.kubeconfig, e.kubectl.path, policyFile))
	<-ctx.Done()
	return nil
}
