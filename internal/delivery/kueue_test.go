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

package delivery

import (
	"testing"

	"sigs.k8s.io/yaml"
)

func TestMayNominate(t *testing.T) {
	const pending = `{conditions: [{type: QuotaReserved, status: "True"}], admissionChecks: [{name: mk, state: Pending}]`
	tests := map[string]struct {
		status string
		want   bool
	}{
		"Pending":      {status: pending + `}`, want: true},
		"Chosen":       {status: pending + `, clusterName: eu-1}`},
		"Evicted":      {status: `{conditions: [{type: QuotaReserved, status: "True"}, {type: Evicted, status: "True"}], admissionChecks: [{state: Pending}]}`},
		"NoLongerThat": {status: `{conditions: [{type: QuotaReserved, status: "True"}, {type: Evicted, status: "False"}], admissionChecks: [{state: Pending}]}`, want: true},
		"Finished":     {status: `{conditions: [{type: QuotaReserved, status: "True"}, {type: Finished, status: "True"}], admissionChecks: [{state: Pending}]}`},
		"NoQuota":      {status: `{admissionChecks: [{state: Pending}]}`},
		"Ready":        {status: `{conditions: [{type: QuotaReserved, status: "True"}], admissionChecks: [{state: Ready}]}`},
		"Nothing":      {status: `{}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var status map[string]any
			if err := yaml.Unmarshal([]byte(tc.status), &status); err != nil {
				t.Fatal(err)
			}
			if got := mayNominate(map[string]any{"status": status}); got != tc.want {
				t.Errorf("mayNominate is %t, want %t", got, tc.want)
			}
		})
	}
}
