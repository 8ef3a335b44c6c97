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

package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/console"
	"github.com/berth-dev/berth/internal/decisionlog"
)

// memoryLog is a log of decisions in memory.
type memoryLog struct {
	entries []decisionlog.Entry
	// read is the number of decisions that were read.
	read int
	// generation changes when the log is replaced.
	generation int
}

// ReadOn implements console.Log.
func (l *memoryLog) ReadOn(ctx context.Context, position string, add func(decisionlog.Entry)) (next string, restarted bool, err error) {
	at, generation := 0, l.generation
	if position != "" {
		if _, err := fmt.Sscan(position, &generation, &at); err != nil {
			return position, false, err
		}
	}
	if restarted = generation != l.generation; restarted {
		at = 0
	}
	for ; at < len(l.entries) && ctx.Err() == nil; at++ {
		l.read++
		add(l.entries[at])
	}
	return fmt.Sprint(l.generation, at), restarted, ctx.Err()
}

func (l *memoryLog) add(name, policy string) {
	l.entries = append(l.entries, decisionlog.Entry{
		Time: time.Date(2026, 1, 1, 12, 0, len(l.entries), 0, time.UTC), Action: decisionlog.Patched,
		Object:   decisionlog.Object{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespace: "shop", Name: name},
		Policies: []decisionlog.Policy{{Name: policy, Generation: 1}},
	})
}

type history struct {
	Log       bool
	Total     int
	Decisions []decisionlog.Entry
	Events    []struct{ Policy, Kind, Text string }
	Notes     []string
}

func TestHistory(t *testing.T) {
	log := &memoryLog{}
	for _, e := range []struct{ name, policy string }{{"web", "region"}, {"api", "gold"}, {"web", "gold"}} {
		log.add(e.name, e.policy)
	}
	c := config(static(t, clusters+policies+workloads+quotas))
	c.Log = log
	b := serve(t, c).open(t)
	for _, tt := range []struct {
		query string
		want  []string
		total int
	}{
		{"", []string{"web", "api", "web"}, 3},
		{"policy=gold", []string{"web", "api"}, 2},
		{"q=SHOP/A", []string{"api"}, 1},
		{"resource=deployments.apps&namespace=shop&name=web", []string{"web", "web"}, 2},
		{"resource=deployments.apps&namespace=other&name=web", nil, 0},
		{"offset=1&limit=1", []string{"api"}, 3},
	} {
		got := get[history](t, b, "history?"+tt.query)
		var names []string
		for _, e := range got.Decisions {
			names = append(names, e.Object.Name)
		}
		if diff := cmp.Diff(tt.want, names); diff != "" || got.Total != tt.total || !got.Log {
			t.Errorf("%s: %+v (-want +got):\n%s", tt.query, got, diff)
		}
	}
	log.add("new", "gold")
	if got := get[history](t, b, "history"); got.Total != 4 || got.Decisions[0].Object.Name != "new" {
		t.Errorf("after a new decision: %+v", got)
	}
	if log.read != 4 {
		t.Errorf("%d decisions were read, although the log has 4", log.read)
	}
	log.entries, log.generation = log.entries[:1], 1
	if got := get[history](t, b, "history"); got.Total != 1 {
		t.Errorf("after the log was replaced: %+v", got)
	}
}

// TestLongHistory checks that the console keeps only the newest decisions.
func TestLongHistory(t *testing.T) {
	log := &memoryLog{}
	for i := range 50_000 {
		log.add(fmt.Sprint("web-", i), "region")
	}
	c := config(static(t, clusters+policies+workloads+quotas))
	c.Log = log
	got := get[history](t, serve(t, c).open(t), "history?limit=1")
	if got.Total != 20_000 || got.Decisions[0].Object.Name != "web-49999" || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "30000 older") {
		t.Errorf("%+v", got)
	}
}

// TestHistoryWithoutLog checks that without a log, the console shows what the status of policies says.
func TestHistoryWithoutLog(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	got := get[history](t, b, "history?policy=region")
	if got.Log || len(got.Events) != 1 || got.Events[0].Kind != "plan" || !strings.Contains(got.Events[0].Text, "plan abc because data changed") {
		t.Errorf("%+v", got)
	}
	if got := get[history](t, b, "history?policy=gold"); len(got.Events) != 0 {
		t.Errorf("%+v", got)
	}
}

var _ console.Log = &memoryLog{}
