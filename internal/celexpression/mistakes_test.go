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

package celexpression_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/celexpression"
)

func TestMistakes(t *testing.T) {
	for expression, want := range map[string]string{
		`object.spec.containers.exists(c, c.resources.requests['cpu'] > '2')`: `c.resources.requests["cpu"] is compared with the text "2", and as a text, 10 is less than 2. If the field is a number, write the number ` +
			`without quotes; if it is a text, compare quantity(c.resources.requests["cpu"]).compareTo(quantity("2")) with 0`,
		`object.spec.replicas > 2 && '2026-01-01' < object.metadata.name`:                               "",
		`quantity(object.spec.cpu).compareTo(quantity('2')) > 0`:                                        "",
		`object.metadata.name == 'web-*'`:                                                               `object.metadata.name is never "web-*", in which * stands for itself: write object.metadata.name.startsWith("web-")`,
		`!(object.metadata.namespace in ['shop', '*-dev'])`:                                             `object.metadata.namespace is never "*-dev", in which * stands for itself: write object.metadata.namespace.endsWith("-dev")`,
		`object.metadata.labels['app'] != 'a*b'`:                                                        `object.metadata.labels["app"] is never "a*b", in which * stands for itself: write object.metadata.labels["app"].matches() with a regular expression`,
		`object.spec.hosts.exists(h, h == '*') || object.metadata.annotations.hosts == '*.example.com'`: "",
		`object.metadata.namespace != 'dev' || object.metadata.namespace != 'test'`:                     `object.metadata.namespace is compared with "dev" and "test", which is always true: each value differs from at least one of the two. To exclude both, join the comparisons by &&`,
		`object.kind == 'Pod' && 'Job' == object.kind`:                                                  `object.kind is compared with "Pod" and "Job", which is always false: no value equals both. To allow either, join the comparisons by ||`,
		`object.kind != 'Pod' && object.kind != 'Job'`:                                                  "",
		`object.kind == 'Pod' || object.kind == 'Job'`:                                                  "",
		`object.kind != 'Pod' || object.metadata.name != 'a'`:                                           "",
		`(object.kind == 'Pod' || object.metadata.name == 'a') && object.kind == 'Job'`:                 "",
		`'prod-'.startsWith(object.metadata.namespace)`:                                                 `"prod-".startsWith(object.metadata.namespace) tests the constant, and not the value: write object.metadata.namespace.startsWith("prod-")`,
		`object.metadata.name.endsWith('-prod')`:                                                        "",
		`object.metadata.name.matches('web-*')`:                                                         `"web-*" is a regular expression, which matches wherever a text has "web": write object.metadata.name.startsWith("web-")`,
		`object.metadata.name.matches('^web-.*$') || object.metadata.name.matches('web-[0-9]*')`:        "",
		`object.metadata.namespace == 'y_prod'`:                                                         `object.metadata.namespace is never "y_prod": the name of a namespace consists of lower-case letters, digits, and hyphens`,
		`object.metadata.namespace == 'y_prod*'`:                                                        `object.metadata.namespace is never "y_prod*": * stands for itself there. As a pattern, it would match no namespace either, because the name of a namespace consists of lower-case letters, digits, and hyphens`,
		`object.metadata.namespace in ['y-prod', '']`:                                                   "",
		`request.operation == 'CREATE'`:                                                                 "",
		`object.`:                                                                                       "",
	} {
		var all []string
		if want != "" {
			all = []string{want}
		}
		if diff := cmp.Diff(all, celexpression.Mistakes(expression)); diff != "" {
			t.Errorf("%s: mistakes (-want +got):\n%s", expression, diff)
		}
	}
}

// TestNamespaces checks which names expressions compare with the namespace of the object.
func TestNamespaces(t *testing.T) {
	for expression, want := range map[string][2][]string{
		`object.metadata.namespace == 'a' || 'b' == object.metadata.namespace`:           {{"a", "b"}, nil},
		`object.metadata.namespace in ['a', 'b'] && object.metadata.name != 'c'`:         {{"a", "b"}, nil},
		`object.metadata.namespace != 'a' && !(object.metadata.namespace in ['b', 'c'])`: {nil, {"a", "b", "c"}},
		`!(object.metadata.namespace != 'a' || object.metadata.namespace == 'b')`:        {{"a"}, {"b"}},
		`request.namespace == 'a'`: {{"a"}, nil},
		`object.metadata.namespace == object.metadata.name || object.metadata.name == 'a'`:          {nil, nil},
		`(object.kind == 'Pod' ? object.metadata.namespace == 'a' : true)`:                          {nil, nil},
		`['a'].exists(n, object.metadata.namespace == n) || object.metadata.namespace.matches('a')`: {nil, nil},
		`object.`: {nil, nil},
	} {
		selected, excluded := celexpression.Namespaces(expression)
		if diff := cmp.Diff(want, [2][]string{selected, excluded}); diff != "" {
			t.Errorf("%s: namespaces (-want +got):\n%s", expression, diff)
		}
	}
}

func TestNeedsKey(t *testing.T) {
	has := map[string][]string{"labels": {"app"}}
	for expression, want := range map[string]string{
		`object.metadata.labels.tier == 'gold'`:                                               "labels tier",
		`object.metadata.annotations['example.com/level'] > '2'`:                              "annotations example.com/level",
		`has(object.metadata.labels) && object.metadata.labels.tier == 'gold'`:                "labels tier",
		`object.metadata.labels.tier == 'gold' && object.spec.replicas > 2`:                   "labels tier",
		`has(object.metadata.labels.tier) && object.metadata.labels.tier == 'gold'`:           "",
		`'tier' in object.metadata.labels && object.metadata.labels.tier == 'gold'`:           "",
		`object.metadata.?labels.?tier.orValue('') == 'gold'`:                                 "",
		`!('tier' in object.metadata.labels) || object.metadata.labels.tier == 'gold'`:        "",
		`object.metadata.labels.app == 'web'`:                                                 "",
		`object.kind == 'Pod' && object.metadata.labels.tier == 'gold'`:                       "labels tier",
		`object.metadata.labels.tier == 'gold' || object.kind == 'Pod'`:                       "",
		`object.metadata.labels.exists(k, k == 'a') && object.metadata.labels.tier == 'gold'`: "",
		`object.spec.replicas > 2`:                                                            "",
		`object.metadata.labels.size() > 1`:                                                   "",
		`object == object`:                                                                    "",
		`request.operation == 'CREATE' && (object.metadata.labels.tier == 'gold')`:            "labels tier",
		`'tier' in request.object.metadata.labels && object.metadata.labels.tier == 'gold'`:   "",
		`request.operation == 'CREATE' || object.metadata.labels.tier == 'gold'`:              "",
		`object.`: "",
	} {
		field, key, ok := celexpression.NeedsKey(t.Context(), expression, has)
		got := ""
		if ok {
			got = field + " " + key
		}
		if got != want {
			t.Errorf("%s: needs %q, want %q", expression, got, want)
		}
	}
}

// TestFailsWithout checks which fields an expression is said to need.
func TestFailsWithout(t *testing.T) {
	const host, deep = "spec.template.spec.hostNetwork", "spec.template.spec.securityContext.runAsUser"
	for _, test := range []struct {
		expression, missing string
		want                bool
	}{
		{`object.spec.template.spec.hostNetwork == true`, host, true},
		{`object.spec.template.spec.hostNetwork`, host, true},
		{`object.spec.template.spec["hostNetwork"] && object.spec.replicas > 1`, host, true},
		{`object.spec.replicas > 1`, host, false},
		{`has(object.spec.template.spec.hostNetwork) && object.spec.template.spec.hostNetwork`, host, false},
		{`!has(object.spec.template.spec.hostNetwork) || !object.spec.template.spec.hostNetwork`, host, false},
		{`object.spec.template.spec.?hostNetwork.orValue(false)`, host, false},
		{`object.spec.template.spec.hostNetwork || object.spec.replicas > 1`, host, false},
		{`object.spec.template.spec.securityContext.runAsUser == 0`, deep, true},
		{`has(object.spec.template.spec.securityContext) && object.spec.template.spec.securityContext.runAsUser == 0`, deep, true},
		{`has(object.spec.template.spec.securityContext.runAsUser) && object.spec.template.spec.securityContext.runAsUser == 0`, deep, false},
		{`has(object.spec.template.spec.securityContext.runAsUser)`, "spec.template.spec.securityContext", true},
		{`object.spec.template.spec.containers.exists(c, c.image == 'latest')`, "spec.template", true},
		{`object.kind == 'Deployment' && object.spec.template.spec.containers.exists(c, c.image == 'latest')`, "spec.template", false},
		{`object.kind == 'CronJob' && object.spec.template.spec.containers.exists(c, c.image == 'latest')`, "spec.template", true},
		{`object.kind == 'CronJob' ? object.spec.jobTemplate.spec.suspend : object.spec.template.spec.hostNetwork`, "spec.template", false},
		{`object.kind != 'CronJob' && object.spec.template.spec.hostNetwork`, "spec.template", false},
		{`object.metadata.name == 'a' && object.spec.template.spec.hostNetwork`, "spec.template", true},
		{`object.`, "spec", false},
	} {
		known := map[string]any{"apiVersion": "batch/v1", "kind": "CronJob"}
		if got := celexpression.FailsWithout(t.Context(), test.expression, strings.Split(test.missing, "."), known); got != test.want {
			t.Errorf("%s without %s: %v, want %v", test.expression, test.missing, got, test.want)
		}
		if len(known) != 2 {
			t.Errorf("%s changes what is known: %v", test.expression, known)
		}
	}
}
