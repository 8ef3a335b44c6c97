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

package documents

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const page = "# Title\n\n```console\n$ one\nout ...\n  put\n$ two # refused\n```\n\n## Section\n\n```console e2e\n$ three # a remark\n```\n"

func TestParse(t *testing.T) {
	blocks, err := parse("docs/page.md", page)
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{File: "docs/page.md", Heading: "Title", Line: 3, Info: []string{"console"}, Text: "$ one\nout ...\n  put\n$ two # refused\n"},
		{File: "docs/page.md", Heading: "Section", Line: 12, Info: []string{"console", "e2e"}, Text: "$ three # a remark\n"},
	}
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Error(diff)
	}
	commands, err := blocks[0].Commands()
	if diff := cmp.Diff([]Command{{Line: "one", want: "out ...\n  put\n"}, {Line: "two", Refused: true}}, commands, cmp.AllowUnexported(Command{}), cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := parse("docs/page.md", "```\nnever closed\n"); err == nil {
		t.Error("a block that is never closed is no error")
	}
	if _, err := (Block{Text: "out\n$ one\n"}).Commands(); err == nil {
		t.Error("output before any command is no error")
	}
}

func TestCheck(t *testing.T) {
	failed := errors.New("exit status 1")
	for name, c := range map[string]struct {
		command Command
		out     string
		err     error
		ok      bool
	}{
		"says nothing of output":    {Command{}, "anything", nil, true},
		"fails":                     {Command{}, "", failed, false},
		"is refused":                {Command{Refused: true}, "", failed, true},
		"is not refused":            {Command{Refused: true}, "", nil, false},
		"output, spaced otherwise":  {Command{want: "a  b\nc"}, "a b c\n", nil, true},
		"other output":              {Command{want: "a"}, "b", nil, false},
		"more output":               {Command{want: "a"}, "a b", nil, false},
		"anything in between":       {Command{want: "a ... c"}, "a b b c", nil, true},
		"no pattern but three dots": {Command{want: "a.c"}, "abc", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.command.Check(c.out, c.err); (err == nil) != c.ok {
				t.Errorf("got %v, want it to be as documented: %t", err, c.ok)
			}
		})
	}
}

func TestCheckWait(t *testing.T) {
	const names = "kubectl wait --for=jsonpath='{.status.acceptedNames.singular}'=a crd/a.example.com"
	for line, c := range map[string]struct {
		earlier string
		ok      bool
	}{
		`kubectl wait csquota/a --for=jsonpath='{.status.namespaces[1].used.pods}'=2`:                      {"", false},
		`kubectl wait csquota/a --for=jsonpath='{.status.namespaces[?(@.namespace=="b")].used.pods}'=2`:    {"", true},
		`kubectl wait csquota/a --for=jsonpath='{.status.namespaces[-1:].used.pods}'=2`:                    {"", false},
		`kubectl get csquota/a -o jsonpath='{.status.namespaces[1]}'`:                                      {"", true},
		`kubectl wait pods --selector app=till --for=condition=Ready`:                                      {"kubectl apply -f till.yaml", false},
		`kubectl wait pods -l app=till --for=condition=Ready`:                                              {"", false},
		`kubectl --namespace default wait pods -l app=till --for=condition=Ready`:                          {"", false},
		`kubectl wait policies --all --namespace default --for=jsonpath='{.metadata.generation}'=2`:        {"kubectl label cluster/a b=c", false},
		`kubectl wait --for=condition=Established crd/a.example.com`:                                       {names, true},
		`kubectl wait --for=condition=Established crd/b.example.com`:                                       {names, false},
		`kubectl wait crd/b.example.com --for condition=established`:                                       {names, false},
		`kubectl wait customresourcedefinition/a.example.com --for condition=established`:                  {names, true},
		`kubectl wait --for=condition=Established -f a.yaml`:                                               {names, false},
		`kubectl wait pods --selector app=till --for=condition=PodScheduled`:                               {"kubectl wait deployment/till --for=jsonpath='{.status.replicas}'=2", true},
		`kubectl wait deployment/till --for=jsonpath='{.metadata.annotations.example\.com/zone}'=eu-2-all`: {"", true},
	} {
		if err := CheckWait([]string{c.earlier, "kubectl get pods"}, line); (err == nil) != c.ok {
			t.Errorf("%s after %q: got %v, want it to be accepted: %t", line, c.earlier, err, c.ok)
		}
	}
}
