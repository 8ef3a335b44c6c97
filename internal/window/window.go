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

// Package window finds out whether a recurring time window, such as a maintenance window, is open.
package window

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // The image of the manager has no database of time zones.

	"github.com/robfig/cron/v3"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Window is a period that recurs on a schedule, such as each night from 22:00 for 6 hours. The zero value is never open. A Window is
// immutable.
type Window struct {
	schedule cron.Schedule // When it opens; nil for the zero value.
	length   time.Duration // How long it stays open.
}

// Parse returns the window that a policy specifies. If it is invalid, Parse returns a zero Window, the name of the invalid field, which is
// "start", "timeZone", or "duration", and an error.
//
// Schedules have the syntax and the meaning of those of CronJobs: both use the parser of the module github.com/robfig/cron.
func Parse(w placementv1.RemediationWindow) (_ Window, field string, _ error) {
	if strings.Contains(w.Start, "TZ") {
		return Window{}, "start", errors.New("a schedule can't contain a time zone: set timeZone")
	}
	schedule, err := cron.ParseStandard(w.Start)
	if err != nil {
		return Window{}, "start", fmt.Errorf(`%w: five fields are expected, minute, hour, day of month, month, and day of week, such as `+
			`"0 22 * * 1-5" for 22:00 from Monday to Friday`, err)
	}
	at, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return Window{}, "start", errors.New("an interval such as @every does not say when the window opens: use five fields")
	}
	if at.Location, err = time.LoadLocation(w.TimeZone); err != nil {
		return Window{}, "timeZone", fmt.Errorf("%w: the name of a time zone in the IANA database is expected, such as Europe/Berlin", err)
	}
	if w.TimeZone == "Local" {
		return Window{}, "timeZone", errors.New("must not depend on where the manager runs: use a name such as Europe/Berlin")
	}
	if w.Duration.Duration <= 0 {
		return Window{}, "duration", errors.New("the window ends before it starts: the duration must be greater than 0")
	}
	if at.Next(time.Unix(0, 0)).IsZero() {
		return Window{}, "start", errors.New("the window never opens: no date matches the schedule")
	}
	return Window{schedule: at, length: w.Duration.Duration}, "", nil
}

// closes returns when the opening that is not over at the time now ends; zero if the window is not open then. If several openings overlap
// at now, it is the end of the one that began first, although the window stays open after that.
func (w Window) closes(now time.Time) time.Time {
	if w.schedule == nil {
		return time.Time{}
	}
	// The window is open if it has opened within its length. Next returns only times after its argument.
	opened := w.schedule.Next(now.Add(-w.length))
	if opened.IsZero() || opened.After(now) {
		return time.Time{}
	}
	return opened.Add(w.length)
}

// Windows are the periods in which existing objects may be moved. If there are none, objects may always be moved.
type Windows []Window

// ParseAll parses the windows that a policy specifies. An invalid one becomes a window that is never open.
func ParseAll(specs []placementv1.RemediationWindow) Windows {
	var out Windows
	for _, spec := range specs {
		w, _, _ := Parse(spec)
		out = append(out, w)
	}
	return out
}

// Open reports whether a window is open at the time now, or there are no windows. Otherwise next is when a window opens next; zero if none
// ever does.
func (w Windows) Open(now time.Time) (open bool, next time.Time) {
	if len(w) == 0 {
		return true, time.Time{}
	}
	if !w.closes(now).IsZero() {
		return true, time.Time{}
	}
	return false, w.next(now)
}

// next returns when a window opens next after a time; zero if none does.
func (w Windows) next(after time.Time) (next time.Time) {
	for _, one := range w {
		if one.schedule == nil {
			continue
		}
		if opens := one.schedule.Next(after); next.IsZero() || !opens.IsZero() && opens.Before(next) {
			next = opens
		}
	}
	return next
}

// closes returns the latest time at which one of the windows closes that are open at the time now; zero if none is open then. Of a window
// whose openings overlap, the one that began first counts, so that a window may still be open at the result.
func (w Windows) closes(now time.Time) (last time.Time) {
	for _, one := range w {
		if closes := one.closes(now); closes.After(last) {
			last = closes
		}
	}
	return last
}

// Limits of the comparisons of windows: openings each minute for a week, or for about a year if there are fewer.
const (
	maxOpenings = 7 * 24 * 60
	maxPeriod   = 400 * 24 * time.Hour
)

// epoch is when comparisons of windows start. Any time will do. A fixed one has the same results each time.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// maxClosed is how long windows may be closed in maxPeriod in all, and NeverClose still returns true: when clocks are set back, a day has
// 25 hours.
const maxClosed = 2 * time.Hour

// NeverClose reports whether at each time one of the windows is open, except for the hour by which clocks are set back. It returns false if
// there are no windows.
func (w Windows) NeverClose() bool {
	start := w.next(epoch)
	if start.IsZero() {
		return false
	}
	at, closed := start, time.Duration(0)
	for range maxOpenings {
		if at.Sub(start) > maxPeriod {
			break
		}
		if closes := w.closes(at); !closes.IsZero() {
			at = closes
			continue
		}
		opens := w.next(at)
		if closed += opens.Sub(at); opens.IsZero() || closed > maxClosed {
			return false
		}
		at = opens
	}
	return true
}

// StayClosed reports whether there is a time of about ten months or more in which no window opens, as with one that opens once a year. It
// returns false if there are no windows, so that objects may always be moved.
func (w Windows) StayClosed() bool {
	const (
		month = 30 * 24 * time.Hour
		years = 5 * 365 * 24 * time.Hour
	)
	if len(w) == 0 {
		return false
	}
	for at := epoch; at.Sub(epoch) < years; at = at.Add(month) {
		// In the month before, a window may have opened.
		if opens := w.next(at); opens.IsZero() || opens.Sub(at) >= 9*month {
			return true
		}
	}
	return false
}

// Redundant returns the indexes of windows without effect, because others are open whenever they are, in ascending order. Of equal windows,
// these are all but the first. A window that never opens is not among them.
func (w Windows) Redundant() (indexes []int) {
	others := slices.Clone(w)
	for i, one := range slices.Backward(w) {
		without := slices.Delete(slices.Clone(others), i, i+1)
		if without.cover(one) {
			others, indexes = without, append(indexes, i)
		}
	}
	slices.Sort(indexes)
	return indexes
}

// cover reports whether one of the windows is open at each time at which another one is, for the other's openings in maxPeriod after epoch,
// and at most maxOpenings of them. It returns false if the other is the zero Window.
func (w Windows) cover(other Window) bool {
	if len(w) == 0 || other.schedule == nil {
		return false
	}
	opens := other.schedule.Next(epoch)
	for range maxOpenings {
		if opens.IsZero() || opens.Sub(epoch) > maxPeriod {
			break
		}
		for at := opens; at.Before(opens.Add(other.length)); {
			closes := w.closes(at)
			if closes.IsZero() {
				return false
			}
			at = closes
		}
		opens = other.schedule.Next(opens)
	}
	return true
}
