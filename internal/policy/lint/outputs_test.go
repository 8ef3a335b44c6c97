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

package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
)

func TestOutputConstants(t *testing.T) {
	for name, tc := range map[string]struct {
		rego string
		want []string
	}{
		"one label": {`scheduling.nodeSelector.disk := "ssd"`, []string{"3:33 scheduling nodeSelector disk = ssd, always"}},
		"brackets":  {`scheduling.nodeSelector["example.com/disk"] := "ssd" if input.metadata.labels.db`, []string{"3:48 scheduling nodeSelector example.com/disk = ssd"}},
		"an object": {`scheduling.nodeSelector := {"disk": "ssd", "zone": "a"}`,
			[]string{"3:37 scheduling nodeSelector disk = ssd, always", "3:52 scheduling nodeSelector zone = a, always"}},
		"all of it": {`scheduling := {"priorityClassName": "gold", "nodeSelector": {"disk": "ssd"}}`,
			[]string{"3:37 scheduling priorityClassName = gold, always", "3:70 scheduling nodeSelector disk = ssd, always"}},
		"several clauses": {`scheduling.priorityClassName := "gold" if input.a

scheduling.schedulerName := "packing"`,
			[]string{"3:33 scheduling priorityClassName = gold", "5:29 scheduling schedulerName = packing, always"}},
		"labels":         {`labels.disk := "ssd"`, []string{"3:16 labels disk = ssd, always"}},
		"annotations":    {`annotations := {"a": "b", "c": input.kind}`, nil},
		"a default":      {`default labels := {"disk": "ssd"}`, []string{"3:28 labels disk = ssd"}},
		"else":           {`labels := {"disk": "ssd"} if input.a else := {"disk": "hdd"}`, []string{"3:20 labels disk = ssd", "3:55 labels disk = hdd"}},
		"of the object":  {`scheduling.nodeSelector.disk := input.metadata.labels.disk`, nil},
		"a variable key": {`scheduling.nodeSelector[key] := "true" if some key in ["a", "b"]`, nil},
		"another rule":   {`disks.a := "ssd"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", placementv1.PlacementPolicySpec{RegoVersion: placementv1.RegoV1, Rego: "package p\n\n" + tc.rego})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range lint.OutputConstants(m.Compiler) {
				text := fmt.Sprintf("%d:%d %s = %s", c.Row, c.Col, strings.Join(c.Path, " "), c.Value)
				if c.Always {
					text += ", always"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("constants (-want +got):\n%s", diff)
			}
		})
	}
}
