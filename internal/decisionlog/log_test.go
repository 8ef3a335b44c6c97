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

package decisionlog_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/placement"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

func newLog(out io.Writer) *decisionlog.Log { return decisionlog.New(slog.NewJSONHandler(out, nil)) }

func entries(t *testing.T, text string) (out []decisionlog.Entry) {
	t.Helper()
	for e, err := range decisionlog.Read(strings.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// entry returns an entry of which each member has a value.
func entry() decisionlog.Entry {
	return decisionlog.Entry{
		Source: decisionlog.Remediation, Action: decisionlog.Patched,
		Object:   decisionlog.Object{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u1"},
		Policies: []decisionlog.Policy{{Name: "zones", Generation: 3}},
		Changes:  []decisionlog.Change{{Field: "annotation a", From: new("x"), To: nil, Policy: "zones"}},
		Causes:   []string{`ClusterProfile inventory/eu-2: label pci-level "3" → "1"`}, User: "alice", Plans: []string{"d1"}, ApprovedBy: []string{"bob"},
		DurationSeconds: 1.5,
	}
}

// TestLine checks the names of the members, on which other programs rely.
func TestLine(t *testing.T) {
	var out bytes.Buffer
	newLog(&out).Write(t.Context(), now, entry())
	want := `{"time":"2026-01-02T03:04:05.006Z","level":"INFO","msg":"placement decision","source":"remediation","action":"patch",` +
		`"object":{"group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"shop","name":"web","uid":"u1"},` +
		`"policies":[{"name":"zones","generation":3}],"changes":[{"field":"annotation a","from":"x","to":null,"policy":"zones"}],` +
		`"causes":["ClusterProfile inventory/eu-2: label pci-level \"3\" → \"1\""],"plans":["d1"],"approvedBy":["bob"],"user":"alice","durationSeconds":1.5}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	read := entry()
	read.Time = now
	if diff := cmp.Diff([]decisionlog.Entry{read}, entries(t, out.String())); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestHostileValues checks that values of users can neither begin a line, nor add a member, nor make lines too long.
func TestHostileValues(t *testing.T) {
	forged := `{"time":"2026-01-02T03:04:05Z","msg":"placement decision","object":{"resource":"deployments","kind":"Deployment","name":"forged"}}`
	hostile := "x\n" + forged + "\r\n" + forged + "\u2028\x1b[1m\u202e\x00\xff"
	e := entry()
	e.Object.Name, e.Object.Kind, e.User = hostile, hostile, hostile
	e.Causes, e.ApprovedBy = []string{hostile}, []string{hostile}
	e.Changes = nil
	for range 20 {
		e.Changes = append(e.Changes, decisionlog.Change{Field: hostile, From: &hostile, To: new(strings.Repeat("€", 1<<20)), Policy: "zones"})
	}
	var out bytes.Buffer
	newLog(&out).Write(t.Context(), now, e)
	if n := strings.Count(out.String(), "\n"); n != 1 || out.Len() > 64<<10 {
		t.Errorf("%d lines with %d bytes", n, out.Len())
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e\u2028\r\x00") {
		t.Errorf("characters that are not visible: %q", out.String())
	}
	got := entries(t, out.String())
	if len(got) != 1 || got[0].Object.Resource != "deployments" || len(got[0].Changes) != 10 || got[0].MoreChanges != 10 {
		t.Errorf("entries %+v", got)
	}
	if *e.Changes[0].From != hostile {
		t.Error("Write changes the entry of its caller")
	}
}

func TestReadSkipsOtherLines(t *testing.T) {
	var out bytes.Buffer
	newLog(&out).Write(t.Context(), now, entry())
	line := out.String()
	quoted, err := json.Marshal(map[string]string{"level": "info", "msg": "Denying", "message": line})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"Alone":      {line, 1},
		"Others":     {"I0102 started\n\n{\"msg\":\"Starting\"}\n" + line + "{\n" + string(quoted) + "\n", 1},
		"Prefix":     {"[pod/berth-1/manager] " + line, 1},
		"Timestamps": {"2026-01-02T03:04:05.123456789Z " + line, 1},
		"Both":       {"[pod/berth-1/manager] 2026-01-02T03:04:05.123456789Z " + line, 1},
		"Within":     {"error: " + line, 0},
		"Empty":      {"", 0},
	} {
		if got := entries(t, tc.text); len(got) != tc.want {
			t.Errorf("%s: %d entries", name, len(got))
		}
	}
	for name, text := range map[string]string{"WrongType": `{"msg":"placement decision","policies":3}`, "TooLong": strings.Repeat("x", 2<<20)} {
		failed := false
		for _, err := range decisionlog.Read(strings.NewReader(text)) {
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestOff(t *testing.T) {
	var off *decisionlog.Log
	off.Write(t.Context(), now, entry())
}

func TestChangesOf(t *testing.T) {
	const clusters = "placement.berth.dev/clusters"
	verdict := func(mode placementv1.Mode, changes ...placement.Change) *placement.Verdict {
		return &placement.Verdict{Policy: &placement.Policy{Name: "p", Generation: 2, Mode: mode}, Changes: changes}
	}
	annotation := func(from, to *string) placement.Change {
		return placement.Change{Field: "annotations", Key: clusters, From: from, To: to}
	}
	old := &unstructured.Unstructured{Object: map[string]any{}}
	old.SetAnnotations(map[string]string{clusters: `["eu-1"]`})
	fixed := annotation(nil, new("x"))
	fixed.Immutable = "because"
	field := "annotation " + clusters
	for name, tc := range map[string]struct {
		verdict *placement.Verdict
		before  *unstructured.Unstructured
		want    []decisionlog.Change
	}{
		"Created":        {verdict(placementv1.ModeEnforce, annotation(new("asked"), new("x"))), &unstructured.Unstructured{}, []decisionlog.Change{{Field: field, To: new("x"), Policy: "p"}}},
		"Kept":           {verdict(placementv1.ModeEnforce, annotation(nil, new(`["eu-1"]`))), old, nil},
		"Changed":        {verdict(placementv1.ModeEnforce, annotation(nil, new("x"))), old, []decisionlog.Change{{Field: field, From: new(`["eu-1"]`), To: new("x"), Policy: "p"}}},
		"Moved":          {verdict(placementv1.ModeEnforce, annotation(new("a"), new("x"))), nil, []decisionlog.Change{{Field: field, From: new("a"), To: new("x"), Policy: "p"}}},
		"DryRun":         {verdict(placementv1.ModeDryRun, annotation(nil, new("x"))), nil, nil},
		"Immutable":      {verdict(placementv1.ModeEnforce, fixed), nil, nil},
		"OnlyTheRecord":  {verdict(placementv1.ModeEnforce, annotation(new("x"), new("x"))), nil, nil},
		"NothingDecided": {verdict(placementv1.ModeEnforce), old, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decisionlog.ChangesOf([]*placement.Verdict{tc.verdict}, tc.before)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
	generated := &unstructured.Unstructured{Object: map[string]any{"kind": "Job"}}
	generated.SetGenerateName("web-")
	got := decisionlog.ObjectOf(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "shop", generated)
	if want := (decisionlog.Object{Group: "batch", Version: "v1", Resource: "jobs", Kind: "Job", Namespace: "shop", Name: "web-"}); got != want {
		t.Errorf("object %+v", got)
	}
}
