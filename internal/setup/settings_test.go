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

package setup

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/predicates"
)

const head = "apiVersion: config.berth.dev/v1alpha1\nkind: ManagerConfiguration\n"

// whitelist is the default list of predicates.
var whitelist = []string{
	"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity",
}

// never returns a predicate whose plugin must not be created yet.
func never(t *testing.T, name string) predicates.Predicate {
	return predicates.Predicate{Name: name, Candidates: predicates.Nodes, New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		t.Errorf("%s is made before anything is judged", name)
		return nil, errors.New("too early")
	}}
}

func TestConfiguration(t *testing.T) {
	tests := map[string]struct {
		args, file string
		own        []predicates.Predicate
		want       []string
		// err contains parts of the error. FILE stands for the path of the file.
		err []string
	}{
		"Defaults":  {want: whitelist},
		"Ordered":   {args: "--predicates=TaintToleration,NodeName", want: []string{"TaintToleration", "NodeName"}},
		"Spaced":    {args: "--predicates=TaintToleration,,NodeName,", want: []string{"TaintToleration", "NodeName"}},
		"Unknown":   {args: "--predicates=NodeName,PodFitsHost", err: []string{"--predicates", `"PodFitsHost"`, strings.Join(whitelist[:6], ", ")}},
		"Twice":     {args: "--predicates=NodeName,NodeName", err: []string{"--predicates", "NodeName"}},
		"None":      {args: "--predicates=", err: []string{"-predicates", "must have at least one name"}},
		"Own":       {own: []predicates.Predicate{never(t, "Maintenance")}, want: append(slices.Clip(whitelist), "Maintenance")},
		"OwnFirst":  {args: "--predicates=Maintenance,NodeName", own: []predicates.Predicate{never(t, "Maintenance")}, want: []string{"Maintenance", "NodeName"}},
		"OwnTwice":  {own: []predicates.Predicate{never(t, "NodeName")}, err: []string{"NodeName"}},
		"NoFile":    {args: "--config=/nowhere", err: []string{"--config", "/nowhere"}},
		"Arguments": {file: "predicates: {pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/a]}}]}", want: whitelist},
		"UnknownField": {
			file: "predicates: {pluginConf: []}", err: []string{"--config", "FILE", `unknown field "predicates.pluginConf"`},
		},
		"WrongArguments": {
			file: "predicates: {pluginConfig: [{name: NodeAffinity}, {name: NodeResourcesFit, args: {ignoredResources: [a b]}}]}",
			err:  []string{"--config", "FILE", "predicates: ", "pluginConfig[1].args.ignoredResources"},
		},
		"ArgumentsOfUnlisted": {
			args: "--predicates=NodeName", file: "predicates: {pluginConfig: [{name: NodeAffinity}]}", err: []string{"--config", "FILE", "pluginConfig[0].name", "NodeAffinity"},
		},
		"ArgumentsTwice": {
			file: "predicates: {pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}", err: []string{"--config", "FILE", "pluginConfig[1].name: Duplicate"},
		},
		"Templates":     {file: "podTemplates: [{group: apps.kruise.io, resource: clonesets, kind: CloneSet, path: .spec.template}]", want: whitelist},
		"KnownTemplate": {file: "podTemplates: [{group: apps, resource: deployments, kind: Deployment, path: .spec.template}]", err: []string{"--config", "FILE", "podTemplates[0].resource: Duplicate"}},
		"Placements":    {file: "placements: [{group: fleet.example.com, resource: rollouts, kind: Rollout, path: .spec.clusters}]", want: whitelist},
		"PlacementPath": {file: "placements: [{group: fleet.example.com, resource: rollouts, kind: Rollout, path: .status.clusters}]", err: []string{"--config", "FILE", "placements[0].path: Invalid"}},
		"WrongPath":     {file: "podTemplates: [{resource: a, kind: A, path: .metadata}]", err: []string{"FILE", "podTemplates[0].path"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "manager.yaml")
			args := strings.Fields(tc.args)
			if tc.file != "" {
				args = append(args, "--config="+file)
				if err := os.WriteFile(file, []byte(head+tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := configured(t, args, tc.own...)
			if (err != nil) != (tc.err != nil) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			for _, part := range tc.err {
				if part = strings.ReplaceAll(part, "FILE", file); !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tc.want, s.predicates.Names()); diff != "" {
				t.Errorf("predicates (-want +got):\n%s", diff)
			}
			_, known := s.templates.Path(schema.GroupResource{Group: "apps.kruise.io", Resource: "clonesets"})
			if want := name == "Templates"; known != want {
				t.Errorf("the template is known: %t, want %t", known, want)
			}
			known = s.clusterLists.Of(schema.GroupResource{Group: "fleet.example.com", Resource: "rollouts"}) != nil
			if want := name == "Placements"; known != want {
				t.Errorf("the list of clusters is known: %t, want %t", known, want)
			}
		})
	}
}

// configured returns what the manager prepares from a command line before it connects to an API server.
func configured(t *testing.T, args []string, own ...predicates.Predicate) (*settings, error) {
	t.Helper()
	o := Options{OwnPredicates: own}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.Bind(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return readSettings(o)
}

// TestDocumentedConfiguration checks that the manager accepts the configuration file that the documentation shows.
func TestDocumentedConfiguration(t *testing.T) {
	if _, err := configured(t, []string{"--config=../../docs/examples/manager.yaml"}); err != nil {
		t.Error(err)
	}
}
