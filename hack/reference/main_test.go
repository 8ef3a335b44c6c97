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
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-dev/berth/cmd/manager/app"
)

func TestWriteDeclarations(t *testing.T) {
	const header = "package events\n\n"
	tests := map[string]struct{ source, want, err string }{
		"kinds": {source: "// Events on objects. See docs/a-b.md#c.\nvar (\n\t// Denied: a policy denied\n\t// the object.\n\tDenied = Kind{\"Warning\", \"PlacementDenied\", admit}\n)\n\n" +
			"var steps = 1\n\nconst (\n\tadmit = \"Admit\"\n)\n",
			want: "\n### Events on objects\n\nSee docs/a-b.md#c.\n\n- `PlacementDenied`: a policy denied the object.\n"},
		"no comment":        {source: "var (\n\tDenied = Kind{\"Warning\", \"PlacementDenied\", admit}\n)\n", err: "Denied needs a comment"},
		"no kind":           {source: "var (\n\t// Denied: a policy.\n\tDenied = 1\n)\n", err: "Denied: is no Kind"},
		"no literal reason": {source: "var (\n\t// Denied: a policy.\n\tDenied = Kind{\"Warning\", reason, admit}\n)\n", err: "Denied: is no string literal"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events.go")
			if err := os.WriteFile(path, []byte(header+tc.source), 0o600); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			err := writeDeclarations(&got, path, token.VAR, event)
			switch {
			case tc.err == "" && (err != nil || got.String() != tc.want):
				t.Errorf("got %q and error %v, want %q", got.String(), err, tc.want)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("got error %v, want %q", err, tc.err)
			}
		})
	}
}

// TestFlagsAreReproducible checks that the list of flags does not depend on the environment.
func TestFlagsAreReproducible(t *testing.T) {
	var want, got strings.Builder
	writeFlags(&want, app.Flags())
	for _, name := range []string{"POD_NAMESPACE", "OPERATOR_CONDITION_NAME", "KUBECONFIG"} {
		t.Setenv(name, "other")
	}
	previous := runtime.GOMAXPROCS(3)
	defer runtime.GOMAXPROCS(previous)
	writeFlags(&got, app.Flags())
	if got.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want.String())
	}
}

func TestLinked(t *testing.T) {
	const text, want = "Time (docs/scaling.md#replicas) of docs/a.md.", "Time ([scaling.md#replicas](scaling.md#replicas)) of [a.md](a.md)."
	if got := linked(text); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
