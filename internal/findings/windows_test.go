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

package findings

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// windowOf returns a window that opens at a time.
func windowOf(start string, duration time.Duration) placementv1.RemediationWindow {
	return placementv1.RemediationWindow{Start: start, Duration: metav1.Duration{Duration: duration}}
}

// TestWindows checks which windows and schedules probably do not mean what their authors do.
func TestWindows(t *testing.T) {
	const (
		closed = "spec.remediation.windows: there are ten months or more in which no window opens, and violations of existing objects stay for so long. The fields of " +
			`start are minute, hour, day of month, month, and day of week: "0 22 * * 6" opens a window each Saturday at 22:00`
		redundant = "has no effect: others are open whenever it is, and Berth patches while any window is open. To patch only in this one, remove the others"
	)
	for name, test := range map[string]struct {
		windows []placementv1.RemediationWindow
		want    []string
	}{
		"EachMinute": {[]placementv1.RemediationWindow{windowOf("* 22 * * *", time.Hour)}, []string{
			`spec.remediation.windows[0].start: "* 22 * * *" opens the window again in each minute of the hour, so that it ends 1h0m0s after the last minute. To open it once, write "0 22 * * *"`}},
		"OneHour": {[]placementv1.RemediationWindow{windowOf("* 22 * * *", time.Minute)}, nil},
		"Always": {[]placementv1.RemediationWindow{windowOf("0 22 * * *", time.Hour), windowOf("* * * * *", time.Hour)}, []string{
			`spec.remediation.windows[1]: the window never closes: it opens again by the end of its duration of 1h0m0s. Set a shorter duration, or a start that comes less often: "0 22 * * *" comes once a day, at 22:00`}},
		"Nightly": {[]placementv1.RemediationWindow{windowOf("0 22 * * *", time.Hour)}, nil},
		"WeekOfMonth": {[]placementv1.RemediationWindow{windowOf("0 22 8-14 * 6", time.Hour)}, []string{
			`spec.remediation.windows[0].start: "0 22 8-14 * 6" opens the window on each day of month 8-14, and also on each day of week 6: cron requires one of the two, not both. Write * for one of them`}},
		"WeeksOfMonth": {[]placementv1.RemediationWindow{windowOf("0 22 1-7,15-21 * 6", time.Hour)}, []string{
			`spec.remediation.windows[0].start: "0 22 1-7,15-21 * 6" opens the window on each day of month 1-7,15-21, and also on each day of week 6: cron requires one of the two, not both. Write * for one of them`}},
		"OddDays":    {[]placementv1.RemediationWindow{windowOf("0 22 8-14/2 * 6", time.Hour)}, nil},
		"Days":       {[]placementv1.RemediationWindow{windowOf("0 22 1,15 * 5", time.Hour)}, nil},
		"OneWeek":    {[]placementv1.RemediationWindow{windowOf("0 22 1-7 * *", time.Hour)}, nil},
		"Descriptor": {[]placementv1.RemediationWindow{windowOf("@daily", time.Hour)}, nil},
		"Invalid":    {[]placementv1.RemediationWindow{windowOf("@yearly", time.Hour), windowOf("never", time.Hour)}, nil},

		"DayAndNight": {[]placementv1.RemediationWindow{windowOf("0 22 * * *", 8*time.Hour), windowOf("0 6 * * *", 16*time.Hour)}, []string{
			"spec.remediation.windows: the windows have no effect together: one of them is always open, and Berth patches while any is. Remove one, or all"}},
		"WithinAnother": {[]placementv1.RemediationWindow{windowOf("0 0 * * 6", 48*time.Hour), windowOf("0 22 * * 6", 6*time.Hour)},
			[]string{"spec.remediation.windows[1] " + redundant}},
		"Overlapping": {[]placementv1.RemediationWindow{windowOf("0 0 * * 6", 48*time.Hour), windowOf("0 22 * * *", 6*time.Hour)}, nil},

		"Yearly":    {[]placementv1.RemediationWindow{windowOf("0 2 1 1 *", time.Minute)}, []string{closed}},
		"LeapDay":   {[]placementv1.RemediationWindow{windowOf("0 2 29 2 *", 2*time.Hour)}, []string{closed}},
		"Quarterly": {[]placementv1.RemediationWindow{windowOf("0 2 1 */3 *", 2*time.Hour)}, nil},

		"Swapped": {[]placementv1.RemediationWindow{windowOf("22 0 * * 1-5", 6*time.Hour)}, []string{
			`spec.remediation.windows[0].start: "22 0 * * 1-5" opens the window at 00:22, because the minute comes before the hour. To open it at 22:00, write "0 22 * * 1-5"`}},
		"QuarterPast": {[]placementv1.RemediationWindow{windowOf("15 0 * * *", 6*time.Hour)}, nil},
		"Minutes":     {[]placementv1.RemediationWindow{windowOf("22 1 * * *", 6*time.Hour), windowOf("37 0 * * *", time.Hour)}, nil},
	} {
		var got []string
		for _, found := range findingsOfWindows(test.windows) {
			got = append(got, found.Message)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
