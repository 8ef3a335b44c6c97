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

package packed

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/test/budget"
)

// pick returns one of the elements of a list.
func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// deployment returns a Deployment. Each tenth has the same team and image.
func deployment(i int) *unstructured.Unstructured {
	team, image := fmt.Sprintf("team-of-the-shop-%d", i%10), fmt.Sprintf("registry.example.com/shop/web:%d", i%10)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": fmt.Sprintf("web-%d", i), "namespace": "shop", "uid": fmt.Sprintf("7f3c0a9e-1d2b-4c5d-8e6f-%012d", i),
			"labels":      map[string]any{"app.kubernetes.io/name": fmt.Sprintf("web-%d", i), "example.com/team": team},
			"annotations": map[string]any{"example.com/" + team: "true", "deployment.kubernetes.io/revision": "7"},
		},
		"spec": map[string]any{
			"replicas": int64(i), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": team, "image": image}}}},
		},
	}}
}

// randomTexts are texts that objects have, as values and as names of members.
var randomTexts = []string{
	"", "a", "web", "shop", "metadata", "a text", `"`, `""`, "é\x00", "7f3c0a9e-1d2b-4c5d-8e6f-000000000001", "7F3C0A9E-1d2b-4c5d-8e6f-000000000001",
	"7f3c0a9e-1d2b-4c5d-8e6f_000000000001", `{"clusters":["eu-1","eu-2"],"shop":"web","signature":"` + strings.Repeat("x", 40) + `"}`,
	strings.Repeat("long ", 500), strings.Repeat(`"quoted" `, 500),
}

// randomValue returns a value that a JSON decoder of the API machinery may return.
func randomValue(r *rand.Rand, depth int) any {
	text := func() string {
		if r.IntN(3) == 0 {
			return fmt.Sprintf("text %d", r.IntN(1000))
		}
		return pick(r, randomTexts)
	}
	switch kind := r.IntN(10); {
	case kind == 0:
		return pick(r, []any{nil, true, false, json.Number("1.50")})
	case kind == 1:
		return pick(r, []int64{0, 1, -1, 7, 8, 14, 15, 16, 127, 128, 1 << 40, math.MaxInt64, math.MinInt64})
	case kind == 2:
		return pick(r, []float64{0, 1.5, -1, math.MaxFloat64})
	case kind < 6 || depth == 0:
		return text()
	case kind == 6:
		out := make([]any, r.IntN(20))
		for i := range out {
			out[i] = randomValue(r, depth-1)
		}
		return out
	default:
		out := map[string]any{}
		for range r.IntN(20) {
			out[text()] = randomValue(r, depth-1)
		}
		return out
	}
}

// TestPackedObjectsAreTheSame checks that objects are the same when they are unpacked, whichever texts are shared meanwhile, and that
// nothing is shared any more when all are released.
func TestPackedObjectsAreTheSame(t *testing.T) {
	r, p := rand.New(rand.NewPCG(1, 2)), NewPacker()
	objects, texts, most := make([]*unstructured.Unstructured, 50), make([]Object, 50), 0
	check := func(i int) {
		t.Helper()
		o := objects[i]
		if diff := cmp.Diff(o.Object, p.Unpack(texts[i], o.GetNamespace(), o.GetName()).Object); diff != "" {
			t.Fatalf("unpacked (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(o.GetLabels(), p.Labels(texts[i], o.GetNamespace(), o.GetName())); diff != "" {
			t.Fatalf("labels (-want +got):\n%s", diff)
		}
	}
	for range budget.Rounds(2000) {
		i := r.IntN(len(objects))
		next := &unstructured.Unstructured{Object: map[string]any{}}
		switch r.IntN(3) {
		case 0:
			next = deployment(i)
		case 1:
			next.Object["spec"] = randomValue(r, 4)
			next.SetName(fmt.Sprintf("web-%d", i))
			next.SetLabels(map[string]string{"tier": pick(r, randomTexts), "name": next.GetName()})
			if r.IntN(2) == 0 {
				next.SetNamespace("shop")
			}
		}
		if objects[i] != nil {
			check(i)
			p.Release(texts[i])
		}
		objects[i], texts[i] = next, p.Pack(next)
		check(i)
		most = max(most, len(p.ids))
	}
	if most < 50 {
		t.Errorf("at most %d texts were shared", most)
	}
	for i, o := range objects {
		if o != nil {
			check(i)
			p.Release(texts[i])
		}
	}
	if len(p.ids) > 0 || len(p.free) != len(p.texts) {
		t.Errorf("shared are still %v", p.ids)
	}
}

// TestOneObjectSharesNothing checks that the texts of an object do not become shared ones because it changes often.
func TestOneObjectSharesNothing(t *testing.T) {
	p, o := NewPacker(), deployment(1)
	var last Object
	for i := range 20 {
		o.SetResourceVersion(fmt.Sprint(i))
		next := p.Pack(o)
		if i > 0 {
			p.Release(last)
		}
		last = next
	}
	if len(p.ids) > 0 {
		t.Errorf("shared are %v", p.ids)
	}
}
