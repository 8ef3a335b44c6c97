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

package predicates

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

func given(name, args string) PluginConfig {
	return PluginConfig{Name: name, Args: runtime.RawExtension{Raw: []byte(args)}}
}

func TestArgumentsRefused(t *testing.T) {
	cases := map[string]struct {
		reason string
		config []PluginConfig
		want   string
	}{
		"NotInUse": {"What is not on the white-list has no arguments.", []PluginConfig{given("VolumeBinding", "{}")},
			`pluginConfig[0].name: Invalid value: "VolumeBinding": the predicate is not in use: remove its arguments, or add it to the list of predicates`},
		"Twice": {"Nobody knows which hold.", []PluginConfig{given("NodeAffinity", "{}"), given("NodeAffinity", "{}")},
			`pluginConfig[1].name: Duplicate value: "NodeAffinity"`},
		"Unknown": {"Decoding is strict.", []PluginConfig{given("NodeResourcesFit", `{"ignored": ["a"]}`)},
			`predicate NodeResourcesFit: pluginConfig[0].args: strict decoding error: unknown field "ignored"`},
		"Invalid": {"Upstream validates, and says which field.",
			[]PluginConfig{given("NodeAffinity", "{}"), given("InterPodAffinity", `{"hardPodAffinityWeight": 101}`)},
			`predicate InterPodAffinity: pluginConfig[1].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]`},
		"Kind": {"They are of the plugin's kind.",
			[]PluginConfig{given("NodeAffinity", `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs"}`)},
			`predicate NodeAffinity: pluginConfig[0].args.kind: Invalid value: "kubescheduler.config.k8s.io/v1, Kind=InterPodAffinityArgs": ` +
				`the arguments must be of kubescheduler.config.k8s.io/v1, Kind=NodeAffinityArgs`},
		"Version": {"They are of a version that there is.",
			[]PluginConfig{given("NodeAffinity", `{"apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "NodeAffinityArgs"}`)},
			`predicate NodeAffinity: pluginConfig[0].args: no kind "NodeAffinityArgs" is registered for version ` +
				`"kubescheduler.config.k8s.io/v1beta1"`},
		"None": {"Some have none.", []PluginConfig{given("NodeName", "{}")},
			`predicate NodeName: pluginConfig[0].args: Forbidden: the predicate has no arguments`},
		"DefaultConstraints": {"What takes the Services of a pod to tell is refused.",
			[]PluginConfig{given("PodTopologySpread", `{"defaultingType": "List", "defaultConstraints":
				[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}`)},
			`predicate PodTopologySpread: pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: Forbidden: a default ` +
				`constraint with DoNotSchedule needs the Services and the controllers of pods, which Berth does not watch; set the constraint in the pods`},
		"InvalidConstraints": {"They are validated first.",
			[]PluginConfig{given("PodTopologySpread", `{"defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}`)},
			`predicate PodTopologySpread: pluginConfig[0].args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty`},
	}
	r, err := NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := r.New(nil, tc.config...)
			if err == nil {
				t.Fatalf("%s: no error", tc.reason)
			}
			// Ignore the part of the message that names the source of the scheme.
			got, _, _ := strings.Cut(err.Error(), " in scheme ")
			diff(t, tc.reason, tc.want, got)
		})
	}
}

func TestArguments(t *testing.T) {
	world := snapshotWith(t, big("a", ""), big("b", ""))
	cases := map[string]struct {
		reason string
		config []PluginConfig
		pod    string
		want   string
	}{
		"Ignored": {"A resource may be ignored, with apiVersion and kind said.",
			[]PluginConfig{given("NodeResourcesFit", `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs",
				"ignoredResources": ["example.com/gpu"]}`)},
			`containers: [{name: c, resources: {requests: {example.com/gpu: 1}}}]`, "2/2 nodes fit"},
		"Affinity": {"An affinity may be added to that of all pods.",
			[]PluginConfig{given("NodeAffinity", `{"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
				{"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]}}}`)},
			`containers: [{name: c}]`, "1/2 nodes fit: 1 node(s) didn't match scheduler-enforced node affinity"},
		"SystemDefaults": {"The scheduler's default constraints only score, and are left out.",
			[]PluginConfig{given("PodTopologySpread", `{"defaultingType": "System"}`)}, `containers: [{name: c}]`, "2/2 nodes fit"},
		"Null": {"Nothing is the defaults.",
			[]PluginConfig{given("PodTopologySpread", ``), given("NodeResourcesFit", `null`)}, `containers: [{name: c}]`, "2/2 nodes fit"},
		"ScoringConstraints": {"Default constraints that only score are left out.",
			[]PluginConfig{given("PodTopologySpread", `{"defaultingType": "List", "defaultConstraints":
				[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}`)}, `containers: [{name: c}]`, "2/2 nodes fit"},
	}
	r, err := NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := r.New(nil, tc.config...)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, tc.reason, tc.want, judge(t, s, world, podOf(t, "{spec: {"+tc.pod+"}}"), Query{}).Summary())
			few, err := s.Narrow(s.Names()[2:])
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "They are kept by what is narrowed.", tc.want, judge(t, few, world, podOf(t, "{spec: {"+tc.pod+"}}"), Query{}).Summary())
		})
	}
}

// TestOwnArguments checks that a user's plugin gets its arguments in the form in which the scheduler passes them.
func TestOwnArguments(t *testing.T) {
	var got []runtime.Object
	mine := Predicate{Name: "Mine", Candidates: Nodes, New: func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
		got = append(got, args)
		return fake{"Mine", func(string) *fwk.Status { return nil }}, nil
	}}
	r, err := NewRegistry(mine)
	if err != nil {
		t.Fatal(err)
	}
	for _, configs := range [][]PluginConfig{nil, {given("Mine", `{"any": "thing"}`)}} {
		s, err := r.New(nil, configs...)
		if err != nil {
			t.Fatal(err)
		}
		judge(t, s, snapshotWith(t), podOf(t, `{spec: {containers: [{name: c}]}}`), Query{})
	}
	diff(t, "Arguments are handed on.", []runtime.Object{nil,
		&runtime.Unknown{Raw: []byte(`{"any": "thing"}`), ContentType: runtime.ContentTypeJSON}}, got)
}
