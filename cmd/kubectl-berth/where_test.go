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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/fleet"
)

// whereFrom has an object that waits, and one that a policy denies.
const whereFrom = "--from=policy.yaml,clusters.yaml,web.yaml,nobody.yaml,own.yaml"

func TestWhere(t *testing.T) {
	for args, want := range map[string]string{
		"": `CLUSTER   WORKLOADS   RUNNING   MOVING   WAITING   VIOLATING   REPLICAS   POLICIES
eu-1      0           0         0        0         0           0          0
no-such   1           0         0        0         1           0          1
us-1      0           0         0        0         0           0          0
(none)    2           0         0        1         1           0          1

Total: 3 workloads, 0 running, 0 moving, 1 waiting, 2 violating.
`,
		"no-such": `RESOURCE           NAMESPACE   NAME   STATE       POLICIES   REASON
deployments.apps   shop        own    Violating   region     PlacementPolicy region denies the object: no owner
`,
		"us-1": "No workload is in us-1.\n",
		"eu-1": `RESOURCE           NAMESPACE   NAME   STATE               POLICIES   REASON
deployments.apps   shop        web    Waiting, arriving   region     PlacementPolicy region decides other values, and Berth has not patched the object yet
`,
		"eu-1 -n other": "No workload of namespace other is in eu-1.\n",
		"deployment/web -n shop": `Deployment shop/web: Waiting
  PlacementPolicy region decides other values, and Berth has not patched the object yet

CLUSTER   STATE               POLICY
eu-1      Waiting, arriving   region
`,
	} {
		t.Run(args, func(t *testing.T) {
			stdout, stderr, err := command(t, append([]string{"where", whereFrom}, strings.Fields(args)...)...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, stdout); diff != "" || stderr != "" {
				t.Errorf("standard error %q, output (-want +got):\n%s", stderr, diff)
			}
		})
	}
}

// TestWhereErrors checks what the command refuses.
func TestWhereErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--by planet":             `--by: "planet" is none of cluster, node, zone, and region`,
		"-o xml":                  `--output: "xml" is not one of json, yaml, or wide`,
		"eu-9":                    `there is no cluster "eu-9": no inventory has it, and no object names it; did you mean "eu-1"?`,
		"--by regions eu-9":       `there is no region "eu-9": no inventory has it, and no object names it; for a workload, write TYPE/NAME, for example deployment/web`,
		"--watch":                 "--watch follows a cluster, and files stay as they are: leave out --watch or --from",
		"deployment/none -n shop": `deployments.apps "none" is not in --from: name its namespace by -n, or explain a manifest of it by kubectl berth explain -f`,
	} {
		if _, _, err := command(t, append([]string{"where", whereFrom}, strings.Fields(args)...)...); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", args, err, want)
		}
	}
	if _, _, err := command(t, "where", "--from=policy.yaml,clusters.yaml", "(none)"); err == nil || err.Error() != "no workload is without a cluster" {
		t.Errorf("error %v", err)
	}
	if _, _, err := command(t, "where", "--watch", "--interval=1ms"); err == nil || err.Error() != "--interval: 1ms is less than 1s" {
		t.Errorf("error %v", err)
	}
}

// TestWhereStructured checks that the output for programs is that of package fleet.
func TestWhereStructured(t *testing.T) {
	stdout, _, err := command(t, "where", whereFrom, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var table fleet.Table
	if err := json.Unmarshal([]byte(stdout), &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Places) != 4 || table.Places[0].Name != "eu-1" || table.Places[0].Arriving != 1 {
		t.Errorf("%+v", table)
	}
	stdout, _, err = command(t, "where", whereFrom, "eu-1", "-o", "yaml")
	if err != nil || !strings.Contains(stdout, "change: Arriving") {
		t.Errorf("error %v, output %s", err, stdout)
	}
	stdout, _, err = command(t, "where", whereFrom, "deployment/web", "-n", "shop", "-o", "json")
	if err != nil || !strings.Contains(stdout, `"policy": "region"`) {
		t.Errorf("error %v, output %s", err, stdout)
	}
}

// TestRepeat checks that --watch prints only what changed, and ends with an error and with the context.
func TestRepeat(t *testing.T) {
	texts := []string{"a\n", "a\n", "b\n"}
	broken := errors.New("broken")
	var out strings.Builder
	err := repeat(t.Context(), 1, &out, func(w io.Writer) error {
		if len(texts) == 0 {
			return broken
		}
		fmt.Fprint(w, texts[0])
		texts = texts[1:]
		return nil
	})
	if !errors.Is(err, broken) || out.String() != "a\n\nb\n" {
		t.Errorf("error %v, output %q", err, out.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := repeat(ctx, 1, io.Discard, func(io.Writer) error { cancel(); return nil }); err != nil {
		t.Error(err)
	}
}
