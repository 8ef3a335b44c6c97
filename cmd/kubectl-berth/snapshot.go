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
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berth-dev/berth/internal/simulation"
)

const snapshotLong = `Record what the policies of a cluster read into one file: the types that the API server serves, the policies, the
objects that they read, and the objects that they match. Of most objects it keeps only the fields that policies read, their labels, and
their annotations. Secrets have no payload.

Other commands take the file in place of the cluster with --from. Their answers are those of the cluster at that time.`

const snapshotExample = `  # Record the cluster, compressed
  kubectl berth snapshot -o cluster.json.gz

  # Explain a decision later, without the cluster
  kubectl berth explain deployment/web -n shop --from cluster.json.gz`

// snapshotOptions are the flags of the snapshot command: --output and --redact, and those that select and configure the cluster.
type snapshotOptions struct {
	simulationFlags
	output string // the path of the file to write; - for the standard output. It is an error if it is empty
	redact bool   // replaces by hashes what no policy needs of the names, labels, and annotations of matched objects
}

func newSnapshot(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &snapshotOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}
	cmd := &cobra.Command{
		Use:     "snapshot -o FILENAME",
		Short:   "Record what the policies of a cluster read",
		Long:    snapshotLong,
		Example: snapshotExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "The file to write. It is compressed if its name ends with .gz. - stands for the "+
		"standard output.")
	cmd.Flags().BoolVar(&o.redact, "redact", false,
		"Replace by hashes the names of objects that policies match, and the values of their labels and annotations, unless a policy reads, "+
			"selects by, or may set them. Namespaces and the objects that policies read stay readable.")
	return cmd
}

func (o *snapshotOptions) run(ctx context.Context) error {
	if o.output == "" {
		return errors.New("name the file to write with -o, for example -o cluster.json.gz")
	}
	s, err := o.simulate(ctx)
	if err != nil {
		return err
	}
	live, ok := s.Cluster().(*simulation.Live)
	if !ok {
		return errors.New("a snapshot records a live cluster: leave out --from")
	}
	served, err := live.Discovery()
	if err != nil {
		return err
	}
	snapshot, err := s.Snapshot(ctx, served)
	if err != nil {
		return err
	}
	if o.redact {
		s.Redact(snapshot)
	}
	if o.output == "-" {
		text, err := json.Marshal(snapshot)
		if err != nil {
			return fmt.Errorf("writing the snapshot: %w", err)
		}
		p := newPrinter(o.Out)
		p.document(printableJSON(text) + "\n")
		return p.err
	}
	if err := writeSnapshot(o.output, snapshot); err != nil {
		return err
	}
	p := newPrinter(o.ErrOut)
	p.line("Recorded %s in %s", objects(len(snapshot.Objects)), o.output)
	return p.err
}

// encodeSnapshot writes a snapshot as one JSON document.
func encodeSnapshot(out io.Writer, s *simulation.Snapshot) error {
	if err := json.NewEncoder(out).Encode(s); err != nil {
		return fmt.Errorf("the snapshot is incomplete and can't be read: %w", err)
	}
	return nil
}

// writeSnapshot writes a snapshot to a file, compressed if its name ends with .gz. Only the user may read a file that it creates; one that
// exists keeps its permissions. After an error, the file may have a part of the snapshot.
func writeSnapshot(path string, s *simulation.Snapshot) (err error) {
	// The snapshot may contain objects that other users may not read.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if !strings.HasSuffix(path, ".gz") {
		return encodeSnapshot(file, s)
	}
	compressed := gzip.NewWriter(file)
	return errors.Join(encodeSnapshot(compressed, s), compressed.Close())
}
