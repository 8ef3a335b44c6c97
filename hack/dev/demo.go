package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// demo starts an environment in dir, plays the story and checks every step of it. With oneshot it stops everything at the
// end of the story, else when ctx ends. An interruption before the end of the story is an error.
func demo(ctx context.Context, root, dir string, oneshot bool, out io.Writer) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	e, err := startEnvironment(ctx, root, dir, func(line string) { fmt.Fprintln(out, line) })
	if err != nil {
		return fmt.Errorf("starting the demo: %w", err)
	}
	defer func() {
		fmt.Fprintln(out, "\nStopping everything")
		// A cluster that is not ours keeps nothing of the story; ctx may be what ended the demo.
		cleanup := context.WithoutCancel(ctx)
		if e.plane == nil {
			err = errors.Join(err, removeStory(cleanup, e.kubectl))
		}
		err = errors.Join(err, e.stop())
		if e.plane == nil {
			// Not before the operator is gone, which would make them again.
			_, deleteErr := e.kubectl.get(cleanup, deleteWebhooks...)
			err = errors.Join(err, deleteErr)
		}
	}()

	s := &stage{kubectl: e.kubectl, out: out, bold: isTerminal(out)}
	for i, act := range story {
		s.headline(i+1, len(story), act)
		if err := act.play(ctx, s); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return fmt.Errorf("step %d of %d (%s) deviates: %w\nThe logs are %s and those in %s", i+1, len(story), act.title, err, operatorLog(dir), filepath.Join(dir, "logs"))
		}
	}
	s.print("\nThe story is told: every step came out as it should.\n")
	if oneshot {
		return nil
	}
	s.print(fmt.Sprintf(`
Play on in another terminal, from %s:

  export KUBECONFIG=%s
  %s apply -f %s

Ctrl-C stops everything.
`, root, e.kubectl.kubeconfig, e.kubectl.path, policyFile))
	<-ctx.Done()
	return nil
}

// isTerminal says whether headlines may be set in bold.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
