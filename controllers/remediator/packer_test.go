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

package remediator

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
)

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
	r, p := rand.New(rand.NewPCG(1, 2)), newPacker()
	objects, texts, most := make([]*unstructured.Unstructured, 50), make([]packed, 50), 0
	check := func(i int) {
		t.Helper()
		o := objects[i]
		if diff := cmp.Diff(o.Object, p.unpack(texts[i], o.GetNamespace(), o.GetName()).Object); diff != "" {
			t.Fatalf("unpacked (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(o.GetLabels(), p.labels(texts[i], o.GetNamespace(), o.GetName())); diff != "" {
			t.Fatalf("labels (-want +got):\n%s", diff)
		}
	}
	for range budget.Rounds(2000) {
		i := r.IntN(len(objects))
		next := &unstructured.Unstructured{Object: map[string]any{}}
		switch r.IntN(3) {
		case 0:
			next = workload(t, i)
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
			p.release(texts[i])
		}
		objects[i], texts[i] = next, p.pack(next)
		check(i)
		most = max(most, len(p.ids))
	}
	if most < 50 {
		t.Errorf("at most %d texts were shared", most)
	}
	for i, o := range objects {
		if o != nil {
			check(i)
			p.release(texts[i])
		}
	}
	if len(p.ids) > 0 || len(p.free) != len(p.texts) {
		t.Errorf("shared are still %v", p.ids)
	}
}

// TestOneObjectSharesNothing checks that the texts of an object do not become shared ones because it changes often.
func TestOneObjectSharesNothing(t *testing.T) {
	p, o := newPacker(), workload(t, 1)
	var last packed
	for i := range 20 {
		o.SetResourceVersion(fmt.Sprint(i))
		next := p.pack(o)
		if i > 0 {
			p.release(last)
		}
		last = next
	}
	if len(p.ids) > 0 {
		t.Errorf("shared are %v", p.ids)
	}
}

// BenchmarkPacking measures the heap of a matched object, as maps and packed: of one that is cut to its metadata, and of a whole one.
func BenchmarkPacking(b *testing.B) {
	const objects = 5000
	for name, fields := range map[string]*projection.FieldSet{"Some": projection.Union(always, identity), "All": projection.AllFields()} {
		for _, packs := range []bool{false, true} {
			b.Run(fmt.Sprintf("fields=%s/packed=%t", name, packs), func(b *testing.B) {
				for b.Loop() {
					before, p := heap(), newPacker()
					texts, maps := make([]packed, 0, objects), make([]*unstructured.Unstructured, 0, objects)
					for i := range objects {
						o := workload(b, i)
						trim(fields, o)
						o.Object = fields.Copy(o.Object)
						if packs {
							texts = append(texts, p.pack(o))
						} else {
							maps = append(maps, o)
						}
					}
					b.ReportMetric(float64(heap()-before)/objects, "heap-B/object")
					runtime.KeepAlive(p)
					runtime.KeepAlive(texts)
					runtime.KeepAlive(maps)
				}
			})
		}
	}
}
