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

package bench_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/bench/fixture"
	"github.com/berth-dev/berth/test/framework/opaserver"
)

// remoteModule takes OPA next to no time, so that what Berth adds shows.
const remoteModule = `package placement

annotations["region"] := data.regions[input.metadata.namespace]
`

// BenchmarkRemote is one decision of the real OPA server, in turns asked by a plain client, whose request is encoded
// already and who reads the answer as bytes, and by Berth. The figures are medians: client-p50-ns is the plain client's
// time, added-p50-ns what Berth takes more, and p50-ratio how many times the plain client's that is in all.
//
//   - data=None is a policy that keeps nothing in the engine.
//   - data=Supplied is one that does: Berth looks after each decision whether it was there.
func BenchmarkRemote(b *testing.B) {
	server := opaserver.Start(b, opaserver.Options{Files: map[string]string{"placement.rego": remoteModule}, Flags: []string{"--log-level=error"}})
	server.PutData("regions", map[string]any{"shop": "eu"})
	server.PutData("berth/holdings", map[string]any{"load": "1", "types": map[string]any{"/v1/nodes": true}})
	url := server.URL() + "/v1/data/placement"
	b.Run("data=None", func(b *testing.B) {
		benchmarkRemote(b, placementv1.Remote{URL: url})
	})
	b.Run("data=Supplied", func(b *testing.B) {
		nodes := policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
		benchmarkRemote(b, placementv1.Remote{URL: url, Replicate: []placementv1.ReplicatedResource{{Resource: "nodes"}}}, nodes)
	})
}

func benchmarkRemote(b *testing.B, spec placementv1.Remote, supplies ...policy.Resource) {
	b.Helper()
	spec.Insecure, spec.TimeoutSeconds = true, 30
	module, err := policy.Compile("bench", placementv1.PlacementPolicySpec{Remote: &spec})
	if err != nil {
		b.Fatal(err)
	}
	evaluator, err := remote.New(remote.Options{}).Prepare(b.Context(), "bench", module, &policy.Binding{Remote: module.Remote, PushedTypes: supplies})
	if err != nil {
		b.Fatal(err)
	}
	input := fixture.Manifest("shop", "web", 2, 0, fixture.Requested(0, 50))
	body, err := json.Marshal(map[string]any{"input": input})
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var plain, added []time.Duration
	measure(b, func(i int) {
		began := time.Now()
		var first, second time.Duration
		// Each goes first as often as the other: what one leaves behind is the other's to bear.
		if i%2 == 0 {
			askPlain(b, client, spec.URL, body)
			first = time.Since(began)
			askBerth(b, evaluator, input)
			second = time.Since(began) - first
		} else {
			askBerth(b, evaluator, input)
			second = time.Since(began)
			askPlain(b, client, spec.URL, body)
			first = time.Since(began) - second
		}
		plain, added = append(plain, first), append(added, second-first)
	})
	slices.Sort(plain)
	slices.Sort(added)
	own, more := plain[len(plain)/2], added[len(added)/2]
	b.ReportMetric(float64(own), "client-p50-ns")
	b.ReportMetric(float64(more), "added-p50-ns")
	b.ReportMetric(float64(own+more)/float64(own), "p50-ratio")
}

func askPlain(b *testing.B, client *http.Client, url string, body []byte) {
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"eu"`)) {
		b.Fatal(response.Status, string(answer), err)
	}
}

func askBerth(b *testing.B, evaluator placement.Evaluator, input map[string]any) {
	d, err := evaluator.Evaluate(b.Context(), input)
	if err != nil || d.Annotations["region"] != "eu" {
		b.Fatal(d, err)
	}
}
