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
	"fmt"
	"strconv"
	"strings"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/window"
)

// findingsOfWindows finds windows of remediation that open at other times than they seem to, that are open only while others are, that
// never close, alone or together, and that leave ten months or more in which none opens.
func findingsOfWindows(list []placementv1.RemediationWindow) []Finding {
	const path = "spec.remediation.windows"
	var windows window.Windows
	for _, one := range list {
		w, _, err := window.Parse(one)
		if err != nil {
			// The policy is refused.
			return nil
		}
		windows = append(windows, w)
	}
	if windows.NeverClose() {
		return []Finding{findingOfOpen(list, windows, path)}
	}
	var out []Finding
	for i, one := range list {
		out = append(out, findingsOfSchedule(one, fmt.Sprintf("%s[%d].start", path, i))...)
	}
	for _, i := range windows.Redundant() {
		out = append(out, advice("%s[%d] has no effect: others are open whenever it is, and Berth patches while any window is open. To "+
			"patch only in this one, remove the others", path, i))
	}
	if windows.StayClosed() {
		out = append(out, advice("%s: there are ten months or more in which no window opens, and violations of existing objects stay for so "+
			"long. The fields of "+
			`start are minute, hour, day of month, month, and day of week: "0 22 * * 6" opens a window each Saturday at 22:00`, path))
	}
	return out
}

// findingOfOpen returns the finding for windows of which one is open at each time: it names the first window that is always open by itself;
// if there is none, all of them. The caller has checked that the windows never close together. path is the path of the list.
func findingOfOpen(list []placementv1.RemediationWindow, windows window.Windows, path string) Finding {
	for i, w := range windows {
		if (window.Windows{w}).NeverClose() {
			return advice("%s[%d]: the window never closes: it opens again by the end of its duration of %s. "+
				`Set a shorter duration, or a start that comes less often: "0 22 * * *" comes once a day, at 22:00`, path, i, list[i].Duration.Duration)
		}
	}
	return advice("%s: the windows have no effect together: one of them is always open, and Berth patches while any is. Remove one, or all",
		path)
}

// findingsOfSchedule finds a schedule that opens a window at other times than it seems to: in each minute of an hour, as * 22 * * * does;
// in a minute after midnight that is probably meant as the hour, as 22 0 * * * does (but not 22 * * * *); or on seven days of the month and
// also on a day of the week. at is its path.
func findingsOfSchedule(one placementv1.RemediationWindow, at string) []Finding {
	fields := strings.Fields(one.Start)
	if len(fields) != 5 {
		return nil
	}
	var out []Finding
	if fields[0] == "*" && fields[1] != "*" && one.Duration.Duration > time.Minute {
		out = append(out, advice("%s: %q opens the window again in each minute of the hour, so that it ends %s after the last minute. "+
			"To open it once, write %q", at, one.Start, one.Duration.Duration, "0 "+strings.Join(fields[1:], " ")))
	}
	if hour, swapped := isSwapped(fields[0], fields[1]); swapped {
		out = append(out, advice("%s: %q opens the window at 00:%02d, because the minute comes before the hour. To open it at %02d:00, write %q",
			at, one.Start, hour, hour, fmt.Sprintf("0 %d %s", hour, strings.Join(fields[2:], " "))))
	}
	if isWeek(fields[2]) && fields[4] != "*" && fields[4] != "?" {
		out = append(out, advice("%s: %q opens the window on each day of month %s, and also on each day of week %s: cron requires one of the "+
			"two, not both. Write * for one of them", at, one.Start, fields[2], fields[4]))
	}
	return out
}

// isSwapped reports whether the author of a cron schedule has probably swapped the hour and the minute: the hour is 0, and the minute is
// from 1 to 23 and no multiple of 5. Windows do not open at 00:22, but may open at 00:15. meant is the hour in which the window then opens,
// the number in minute; it has no meaning if swapped is false.
func isSwapped(minute, hour string) (meant int, swapped bool) {
	n, err := strconv.Atoi(minute)
	return n, err == nil && n > 0 && n < 24 && n%5 != 0 && (hour == "0" || hour == "00")
}

// isWeek reports whether the day-of-month field of a schedule consists of ranges of seven days, such as 8-14 or 1-7,15-21. An author of
// 8-14 with a day of the week probably means the second such day of the month.
func isWeek(days string) bool {
	for part := range strings.SplitSeq(days, ",") {
		from, to, _ := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last, lastErr := strconv.Atoi(to)
		if err != nil || lastErr != nil || last-first != 6 {
			return false
		}
	}
	return true
}
