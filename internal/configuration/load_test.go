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

package configuration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/internal/replication"
)

const head = "apiVersion: config.berth.dev/v1alpha1\nkind: ManagerConfiguration\n"

func TestLoad(t *testing.T) {
	itself := metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}
	tests := map[string]struct {
		text string
		want *ManagerConfiguration
		// err are parts of the error message.
		err []string
	}{
		"NothingSaid": {text: head, want: &ManagerConfiguration{TypeMeta: itself}},
		"JSON":        {text: `{"apiVersion": "config.berth.dev/v1alpha1", "kind": "ManagerConfiguration"}`, want: &ManagerConfiguration{TypeMeta: itself}},
		"CommentsOfItsOwn": {
			text: "# Whose it is.\n---\n" + head + "---\n# The end.\n", want: &ManagerConfiguration{TypeMeta: itself},
		},
		"Arguments": {
			text: head + "predicates: {pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/foo]}}]}",
			want: &ManagerConfiguration{TypeMeta: itself, Predicates: Predicates{PluginConfig: []PluginConfig{
				{Name: "NodeResourcesFit", Args: runtime.RawExtension{Raw: []byte(`{"ignoredResources":["example.com/foo"]}`)}},
			}}},
		},
		"Templates": {
			text: head + "podTemplates: [{group: apps.kruise.io, resource: clonesets, kind: CloneSet, path: .spec.template}]",
			want: &ManagerConfiguration{TypeMeta: itself, PodTemplates: []PodTemplate{
				{Group: "apps.kruise.io", Resource: "clonesets", Kind: "CloneSet", Path: ".spec.template"},
			}},
		},
		"Placements": {
			text: head + "placements: [{group: fleet.example.com, resource: rollouts, kind: Rollout, path: .spec.clusters}]",
			want: &ManagerConfiguration{TypeMeta: itself, Placements: []Placement{
				{Group: "fleet.example.com", Resource: "rollouts", Kind: "Rollout", Path: ".spec.clusters"},
			}},
		},
		"Inventories": {
			text: head + "inventories: [{group: fleet.example.com, version: v1, resource: sites, fields: {name: spec.cluster, ready: {condition: Healthy}}}]",
			want: &ManagerConfiguration{TypeMeta: itself, Inventories: []replication.Declaration{{
				Group: "fleet.example.com", Version: "v1", Resource: "sites",
				Fields: replication.DeclaredFields{Name: "spec.cluster", Ready: &replication.DeclaredReady{Condition: "Healthy"}},
			}}},
		},
		"ClusterSources": {
			text: head + "clusterSources: [{group: multicluster.x-k8s.io, resource: clusterprofiles, namespaces: [fleet], selector: {matchLabels: {a: b}}}]",
			want: &ManagerConfiguration{TypeMeta: itself, ClusterSources: []replication.Source{{
				Group: "multicluster.x-k8s.io", Resource: "clusterprofiles", Namespaces: []string{"fleet"}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			}}},
		},
		"SourceFields":    {text: head + "clusterSources: [{namespace: a}]", err: []string{`unknown field "clusterSources[0].namespace"`}},
		"InventoryFields": {text: head + "inventories: [{fields: {zone: a}}]", err: []string{`unknown field "inventories[0].fields.zone"`}},
		"Empty":           {text: "# nothing\n", err: []string{"has 0 documents"}},
		"Two":             {text: head + "---\n" + head, err: []string{"has 2 documents"}},
		"NoYAML":          {text: "a: b: c", err: []string{"mapping values"}},
		"NoObject":        {text: "[]", err: []string{"cannot unmarshal array"}},
		"NoType":          {text: "predicates: {}", err: []string{`apiVersion: Unsupported value: ""`, APIVersion, `kind: Unsupported value: ""`, Kind}},
		"OtherVersion":    {text: strings.Replace(head, "v1alpha1", "v9", 1) + "new: 1", err: []string{`apiVersion: Unsupported value: "config.berth.dev/v9"`}},
		"UnknownFields": {
			text: head + "predicates: {pluginConfig: [{name: A, arg: {}}], names: [A]}\nother: 1",
			err:  []string{`unknown field "other"`, `unknown field "predicates.names"`, `unknown field "predicates.pluginConfig[0].arg"`},
		},
		"OtherCase": {text: head + "podtemplates: []", err: []string{`unknown field "podtemplates"`}},
		"Twice":     {text: head + "podTemplates: []\npodTemplates: []", err: []string{`"podTemplates" already set`}},
		"OtherKind": {text: head + "predicates: {pluginConfig: none}", err: []string{"predicates.pluginConfig: must be a list, is a string"}},
		"OneString": {text: head + "clusterSources: [{namespaces: fleet}]", err: []string{"clusterSources[0].namespaces: must be a list, is a string"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "manager.yaml")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Load(path)
			if (err != nil) != (tc.err != nil) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if err == nil {
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			for _, part := range append(tc.err, path) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestLoadNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names %s", err, path)
	}
}

func TestFields(t *testing.T) {
	for path, want := range map[string][]string{
		"":                               nil,
		".spec.template":                 {"spec", "template"},
		"spec.jobTemplate.spec.template": {"spec", "jobTemplate", "spec", "template"},
		".spec..x":                       {"spec", "", "x"},
	} {
		if diff := cmp.Diff(want, fieldsOf(path)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
}
