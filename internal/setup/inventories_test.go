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
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeclaredInventoriesAreChecked checks that an invalid inventory in the configuration file prevents the start, and
// that the error names file and field.
func TestDeclaredInventoriesAreChecked(t *testing.T) {
	const head = "apiVersion: config.berth.dev/v1alpha1\nkind: ManagerConfiguration\ninventories:\n"
	const good = "- {group: fleet.example.com, version: v1, resource: sites}\n"
	path := filepath.Join(t.TempDir(), "manager.yaml")
	for text, want := range map[string]string{
		good: "",
		good + "- {group: dc.example.com, version: v1, resource: racks, fields: {region: a..b}}\n": path + `: inventories[1].fields.region: Invalid value: "a..b"`,
		good + "clusterSources:\n- {group: fleet.example.com, resource: sites}\n":                  "",
		good + "clusterSources:\n- {group: fleet.example.com, resource: site}\n":                   path + `: clusterSources[0]: Unsupported value: "site.fleet.example.com"`,
		good + good: path + ": inventories[1]: Duplicate value",
	} {
		if err := os.WriteFile(path, []byte(head+text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := readSettings(Options{Config: path})
		if want == "" {
			if err != nil || len(s.inventories.Resources()) == 0 {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
