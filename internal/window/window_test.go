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

package window_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/window"
)

func spec(start string, duration time.Duration, zone string) placementv1.RemediationWindow {
	return placementv1.RemediationWindow{Start: start, Duration: metav1.Duration{Duration: duration}, TimeZone: zone}
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOpen(t *testing.T) {
	nightly := spec("0 22 * * *", 6*time.Hour, "")
	berlin := spec("0 22 * * 1-5", 6*time.Hour, "Europe/Berlin")
	// Clocks in Berlin go from 02:00 to 03:00 on 2026-03-29 and from 03:00 to 02:00 on 2026-10-25.
	early := spec("30 1 * * *", time.Hour, "Europe/Berlin")
	invalid := placementv1.RemediationWindow{}
	for name, test := range map[string]struct {
		windows []placementv1.RemediationWindow
		now     string
		open    bool
		next    string
	}{
		"no windows":                           {now: "2026-01-01T12:00:00Z", open: true},
		"before":                               {windows: []placementv1.RemediationWindow{nightly}, now: "2026-01-01T21:59:59Z", next: "2026-01-01T22:00:00Z"},
		"at the start":                         {windows: []placementv1.RemediationWindow{nightly}, now: "2026-01-01T22:00:00Z", open: true},
		"after midnight":                       {windows: []placementv1.RemediationWindow{nightly}, now: "2026-01-02T03:59:59.999Z", open: true},
		"at the end":                           {windows: []placementv1.RemediationWindow{nightly}, now: "2026-01-02T04:00:00Z", next: "2026-01-02T22:00:00Z"},
		"in another time zone":                 {windows: []placementv1.RemediationWindow{berlin}, now: "2026-01-01T21:00:00Z", open: true},
		"before, in another time zone":         {windows: []placementv1.RemediationWindow{berlin}, now: "2026-01-01T20:59:59Z", next: "2026-01-01T21:00:00Z"},
		"on Saturday, opened on Friday":        {windows: []placementv1.RemediationWindow{berlin}, now: "2026-01-03T02:00:00Z", open: true},
		"on Saturday":                          {windows: []placementv1.RemediationWindow{berlin}, now: "2026-01-03T21:30:00Z", next: "2026-01-05T21:00:00Z"},
		"the first of two":                     {windows: []placementv1.RemediationWindow{berlin, nightly}, now: "2026-01-01T12:00:00Z", next: "2026-01-01T21:00:00Z"},
		"the second of two":                    {windows: []placementv1.RemediationWindow{early, nightly}, now: "2026-01-01T23:00:00Z", open: true},
		"an hour across the start of summer":   {windows: []placementv1.RemediationWindow{early}, now: "2026-03-29T01:29:59Z", open: true},
		"after an hour at the start of summer": {windows: []placementv1.RemediationWindow{early}, now: "2026-03-29T01:30:00Z", next: "2026-03-29T23:30:00Z"},
		"invalid":                              {windows: []placementv1.RemediationWindow{invalid}, now: "2026-01-01T12:00:00Z"},
		"one of them invalid":                  {windows: []placementv1.RemediationWindow{invalid, nightly}, now: "2026-01-01T12:00:00Z", next: "2026-01-01T22:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			open, next := window.ParseAll(test.windows).Open(at(t, test.now))
			var want time.Time
			if test.next != "" {
				want = at(t, test.next)
			}
			if open != test.open || !next.Equal(want) {
				t.Errorf("open is %v and next %v, not %v and %v", open, next, test.open, want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		spec  placementv1.RemediationWindow
		field string
		// message is part of the error.
		message string
	}{
		"valid":              {spec: spec("0 22 * * 1-5", time.Hour, "Europe/Berlin")},
		"descriptor":         {spec: spec("@daily", time.Hour, "")},
		"four fields":        {spec("0 22 * *", time.Hour, ""), "start", "five fields"},
		"no such hour":       {spec("0 25 * * *", time.Hour, ""), "start", "above maximum"},
		"interval":           {spec("@every 1h", time.Minute, ""), "start", "@every"},
		"zone in start":      {spec("TZ=UTC 0 22 * * *", time.Hour, ""), "start", "timeZone"},
		"cron zone in start": {spec("CRON_TZ=UTC 0 22 * * *", time.Hour, ""), "start", "timeZone"},
		"no such date":       {spec("0 0 30 2 *", time.Hour, ""), "start", "never opens"},
		"unknown zone":       {spec("0 22 * * *", time.Hour, "Europe/Berlim"), "timeZone", "Europe/Berlim"},
		"local zone":         {spec("0 22 * * *", time.Hour, "Local"), "timeZone", "Europe/Berlin"},
		"no duration":        {spec("0 22 * * *", 0, ""), "duration", "ends before it starts"},
		"negative duration":  {spec("0 22 * * *", -time.Hour, ""), "duration", "ends before it starts"},
	} {
		t.Run(name, func(t *testing.T) {
			_, field, err := window.Parse(test.spec)
			if field != test.field || (err != nil) != (test.field != "") || err != nil && !strings.Contains(err.Error(), test.message) {
				t.Errorf("field %q: %v", field, err)
			}
		})
	}
}

// TestNeverClose checks which windows are always open together.
func TestNeverClose(t *testing.T) {
	for name, test := range map[string]struct {
		windows []placementv1.RemediationWindow
		want    bool
	}{
		"each minute":                 {[]placementv1.RemediationWindow{spec("* * * * *", 8*time.Hour, "")}, true},
		"each hour, as long":          {[]placementv1.RemediationWindow{spec("0 * * * *", time.Hour, "")}, true},
		"each hour, shorter":          {[]placementv1.RemediationWindow{spec("0 * * * *", 59*time.Minute, "")}, false},
		"each day, as long":           {[]placementv1.RemediationWindow{spec("0 0 * * *", 24*time.Hour, "")}, true},
		"each day, with summer time":  {[]placementv1.RemediationWindow{spec("0 0 * * *", 24*time.Hour, "Europe/Berlin")}, true},
		"each minute of working days": {[]placementv1.RemediationWindow{spec("* * * * 1-5", 8*time.Hour, "")}, false},
		"each minute of a hour":       {[]placementv1.RemediationWindow{spec("* 22 * * *", 8*time.Hour, "")}, false},
		"all but a minute of an hour": {[]placementv1.RemediationWindow{spec("0-58 * * * *", time.Minute, "")}, false},
		"nightly":                     {[]placementv1.RemediationWindow{spec("0 22 * * *", 8*time.Hour, "")}, false},
		"day and night": {[]placementv1.RemediationWindow{
			spec("0 6 * * *", 16*time.Hour, "Europe/Berlin"), spec("0 22 * * *", 8*time.Hour, "Europe/Berlin"),
		}, true},
		"night and a part of the day": {[]placementv1.RemediationWindow{spec("0 6 * * *", 15*time.Hour, ""), spec("0 22 * * *", 8*time.Hour, "")}, false},
		"none":                        {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := window.ParseAll(test.windows).NeverClose(); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestStayClosed checks between which windows nearly a year may pass.
func TestStayClosed(t *testing.T) {
	for name, test := range map[string]struct {
		starts []string
		want   bool
	}{
		"once a year":           {[]string{"0 2 1 1 *"}, true},
		"a name":                {[]string{"@yearly"}, true},
		"on a leap day":         {[]string{"0 2 29 2 *"}, true},
		"a week in January":     {[]string{"0 2 1-7 1 *"}, true},
		"twice a year":          {[]string{"0 2 1 1,7 *"}, false},
		"each quarter":          {[]string{"0 2 1 1,4,7,10 *"}, false},
		"not in December":       {[]string{"0 2 * 1-11 *"}, false},
		"nightly":               {[]string{"0 2 * * *"}, false},
		"nightly, and one more": {[]string{"0 2 * * *", "0 2 29 2 *"}, false},
		"none":                  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var windows []placementv1.RemediationWindow
			for _, start := range test.starts {
				windows = append(windows, spec(start, time.Hour, ""))
			}
			if got := window.ParseAll(windows).StayClosed(); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestRedundant checks which windows are open only while others are.
func TestRedundant(t *testing.T) {
	nightly, weekend := spec("0 22 * * *", 6*time.Hour, ""), spec("0 0 * * 6", 48*time.Hour, "")
	saturday, dawn := spec("0 2 * * 6", 4*time.Hour, ""), spec("0 4 * * *", 2*time.Hour, "")
	for name, test := range map[string]struct {
		windows []placementv1.RemediationWindow
		want    []int
	}{
		"one":             {[]placementv1.RemediationWindow{nightly}, nil},
		"equal":           {[]placementv1.RemediationWindow{nightly, nightly, nightly}, []int{1, 2}},
		"within another":  {[]placementv1.RemediationWindow{saturday, weekend}, []int{0}},
		"partly":          {[]placementv1.RemediationWindow{nightly, weekend}, nil},
		"after another":   {[]placementv1.RemediationWindow{nightly, dawn}, nil},
		"within two":      {[]placementv1.RemediationWindow{nightly, dawn, spec("0 3 * * *", 2*time.Hour, "")}, []int{2}},
		"as others twice": {[]placementv1.RemediationWindow{spec("0 22 * * *", 2*time.Hour, ""), spec("0 0 * * *", 2*time.Hour, ""), spec("0 22 * * *", 4*time.Hour, "")}, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, window.ParseAll(test.windows).Redundant()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
