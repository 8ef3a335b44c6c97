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

package push

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/policy"
)

func TestModuleTexts(t *testing.T) {
	own := policy.ModulePrefix + "a"
	many := make([]string, maxModules+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"id": "%s%d"}`, policy.ModulePrefix, i)
	}
	for name, tc := range map[string]struct {
		list   string
		want   moduleTexts
		failed bool
	}{
		"none":         {list: `[]`, want: moduleTexts{}},
		"null":         {list: `null`, want: moduleTexts{}},
		"others":       {list: `[{"id": "other", "raw": "package a"}, {}, null]`, want: moduleTexts{}},
		"own":          {list: `[{"id": "other"}, {"id": "` + own + `", "raw": "package a", "ast": {"package": []}}]`, want: moduleTexts{own: "package a"}},
		"an object":    {list: `{"id": "a"}`, failed: true},
		"a number":     {list: `1`, failed: true},
		"other values": {list: `[{"id": 1}]`, failed: true},
		"too many":     {list: `[` + strings.Join(many, ",") + `]`, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			var list struct{ Result moduleTexts }
			err := json.Unmarshal([]byte(`{"result": `+tc.list+`}`), &list)
			if failed := err != nil; failed != tc.failed {
				t.Fatal(err)
			}
			if !tc.failed {
				if diff := cmp.Diff(tc.want, list.Result); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestListsTakeLittleMemory checks that an engine does not fill the memory by a list of few bytes.
func TestListsTakeLittleMemory(t *testing.T) {
	const modules = 1 << 19
	text := []byte(`{"result": [` + strings.Repeat(`{},`, modules-1) + `{}]}`)
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			var list struct{ Result moduleTexts }
			if err := json.Unmarshal(text, &list); err != nil {
				b.Fatal(err)
			}
		}
	})
	if taken := result.AllocedBytesPerOp(); taken > 32*modules {
		t.Errorf("a list of %d bytes takes %d", len(text), taken)
	}
}
