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

package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/whatif"
)

// changes are the changes to the cluster that the user tries, as requests of /api/whatif, /api/unaffected, and /api/testcase have them:
// manifests to apply, fields to set or remove, and objects to delete, all as text.
type changes struct {
	// Manifests are YAML documents of policies, or of any objects that policies read.
	Manifests string `json:"manifests"`
	// Set and Delete have the syntax of the flags --set and --delete of `kubectl berth whatif`: TYPE/[NAMESPACE/]NAME:PATH=VALUE, without
	// =VALUE to remove the field, and TYPE/[NAMESPACE/]NAME.
	Set    []string `json:"set"`
	Delete []string `json:"delete"`
}

// question is the request of /api/whatif: changes, and which of the objects to which something would happen are in the response.
type question struct {
	changes
	// Transition selects the objects to which it would happen, or those that wait as before, of these only the first whatif.MaxStillWaiting;
	// empty for all to which something would happen. An unknown one selects none.
	Transition whatif.Transition `json:"transition,omitempty"`
	Offset     int               `json:"offset,omitempty"` // how many of the selected objects the response skips; none if negative
	Limit      int               `json:"limit,omitempty"`  // the most objects in the response, up to maxObjects; 0 or less for defaultObjects
}

// whatifView is the response of /api/whatif.
type whatifView struct {
	Mistakes []Mistake `json:"mistakes"`
	// Report has, of its objects, those that the request selects; nil if the changes can't be tried, because of mistakes or of missing
	// rights.
	Report *whatif.Report `json:"report"`
	Total  int            `json:"total"` // the number of all objects to which something happens
	Moves  int            `json:"moves"` // the number of all objects that get other values without an approval or an update, perhaps later
	Flows  []Flow         `json:"flows"` // the flows of all objects
	// Notes say what is missing because the user may not read it.
	Notes []string `json:"notes"`
	// Commands are commands for a shell: the first one predicts the same, and the others make the changes. There are none without changes.
	Commands []string `json:"commands"`
	// Before has, for each text in Set, the value that its field has now; nil if it has none, or the user may not read the object.
	Before []*string `json:"before"`
	// Approvals are those for which objects wait after the changes. The objects that wait for one as before do not count.
	Approvals []awaitedApproval `json:"approvals"`
	// Milliseconds is how long the console took to compute the response.
	Milliseconds int64 `json:"milliseconds"`
}

func (c *Console) whatif(r *http.Request, asked question) (*whatifView, error) {
	started := time.Now()
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	out := &whatifView{Mistakes: []Mistake{}, Flows: []Flow{}, Notes: []string{}, Commands: []string{}, Before: []*string{},
		Approvals: []awaitedApproval{}}
	parsed, err := c.parse(r, s, asked.changes, out)
	if err != nil {
		return nil, err
	}
	if !out.fatal() {
		if out.Commands, err = s.commandsFor(r.Context(), asked.changes, parsed); err != nil {
			return nil, err
		}
		if out.Before, err = s.valuesBefore(r.Context(), parsed.Set); err != nil {
			return nil, err
		}
		if err := s.answer(r, asked, parsed, out); err != nil {
			return nil, err
		}
	}
	out.Milliseconds = time.Since(started).Milliseconds()
	return out, nil
}

// fatal reports whether a mistake in the response makes it impossible to try the changes, such as invalid YAML or too many policies. The
// errors on policies from Config.Check do not: the console tries the changes all the same.
func (v *whatifView) fatal() bool {
	return slices.ContainsFunc(v.Mistakes, func(m Mistake) bool { return m.fatal })
}

// parse returns the changes of a request, and adds their mistakes to the response. An error means that the context has ended, or that there
// are more than maxAssignments fields and deletions (status 400).
func (c *Console) parse(r *http.Request, s *state, asked changes, out *whatifView) (whatif.Changes, error) {
	var parsed whatif.Changes
	if err := s.computing.take(r.Context()); err != nil {
		return parsed, err
	}
	defer s.computing.free()
	if err := c.parseManifests(r.Context(), s, asked.Manifests, &parsed, out); err != nil {
		return parsed, err
	}
	if n := len(asked.Set) + len(asked.Delete); n > maxAssignments {
		return parsed, problem{http.StatusBadRequest, fmt.Sprintf("%d fields and deletions are more than the %d that the console tries: try "+
			"them with kubectl berth whatif", n, maxAssignments)}
	}
	for _, text := range asked.Set {
		assignment, err := whatif.ParseAssignment(r.Context(), s.cached, text)
		if err = cmp.Or(checkPrintable(text), err); err != nil {
			out.Mistakes = append(out.Mistakes, Mistake{Error: true, Message: err.Error(), fatal: true})
			continue
		}
		parsed.Set = append(parsed.Set, assignment)
	}
	for _, text := range asked.Delete {
		reference, err := whatif.ParseReference(r.Context(), s.cached, text)
		if err = cmp.Or(checkPrintable(text), err); err != nil {
			out.Mistakes = append(out.Mistakes, Mistake{Error: true, Message: err.Error(), fatal: true})
			continue
		}
		parsed.Delete = append(parsed.Delete, reference)
	}
	return parsed, r.Context().Err()
}

// maxAssignments is the maximum number of fields to set and objects to delete in a request. More are an error.
const maxAssignments = 1000

// checkPrintable returns an error for a text with a character that can't be printed, such as a line break. Commands contain the text, and a
// terminal may obey or hide such a character.
func checkPrintable(text string) error {
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		return fmt.Errorf("%q has a character that can't be printed, so no change is tried: remove the character, or write the change as "+
			"a manifest", text)
	}
	return nil
}

// parseManifests adds the objects in a text of YAML documents to the changes, and the mistakes in the text to the response: invalid YAML,
// documents that are no objects, exceeded limits, and the errors and warnings on its policies from Config.Check. It does not check other
// objects, nor whether their kinds exist. An error means that the context has ended.
func (c *Console) parseManifests(ctx context.Context, s *state, text string, parsed *whatif.Changes, out *whatifView) error {
	refuse := func(message string) error {
		out.Mistakes = append(out.Mistakes, Mistake{Error: true, Message: message, fatal: true})
		return nil
	}
	if len(text) > maxManifests {
		return refuse("the text has more than 1 MiB: try it with kubectl berth whatif")
	}
	policies := 0
	for _, d := range split(text) {
		objects, mistake := d.objects()
		if mistake != nil {
			out.Mistakes = append(out.Mistakes, *mistake)
		}
		parsed.Apply = append(parsed.Apply, objects...)
		for _, obj := range objects {
			if !isPolicy(obj) {
				continue
			}
			if policies++; policies > maxPolicies {
				return refuse(fmt.Sprintf("the text has more than %d policies: try them with kubectl berth whatif", maxPolicies))
			}
			mistakes, warnings := c.config.Check(ctx, s.Reading, obj)
			for _, message := range mistakes {
				out.Mistakes = append(out.Mistakes, d.mistake(obj, message, true))
			}
			for _, message := range warnings {
				out.Mistakes = append(out.Mistakes, d.mistake(obj, message, false))
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(out.Mistakes) > maxMistakes {
			out.Mistakes = out.Mistakes[:maxMistakes]
			return refuse("there are more mistakes: correct these first")
		}
	}
	return nil
}

// answer adds to the response what the changes would do. If the user may not read what that needs, it adds a note instead, and if the
// changes are impossible, a mistake.
func (s *state) answer(r *http.Request, asked question, parsed whatif.Changes, out *whatifView) error {
	answered, err := s.report(r, asked.changes, parsed)
	switch {
	case apierrors.IsForbidden(err):
		// The mistakes are known without it.
		out.Notes = append(out.Notes, "What the change would do is not known: "+err.Error())
		return nil
	case errors.As(err, new(impossible)):
		if !slices.ContainsFunc(out.Mistakes, func(m Mistake) bool { return m.Error }) {
			out.Mistakes = append(out.Mistakes, Mistake{Error: true, Message: err.Error()})
		}
		return nil
	case err != nil:
		return err
	}
	report := *answered.report
	for _, missing := range report.Missing {
		out.Notes = append(out.Notes, fmt.Sprintf("You may not list %s, so they are missing: ask for the right to list them.", missing))
	}
	out.Total, out.Moves, out.Flows, out.Approvals = len(report.Objects), answered.moves, answered.flows, answered.approvals
	report.Objects = asked.page(answered.report)
	out.Report = &report
	return nil
}

// page returns those of the objects in a report that the request selects: by transition, from the offset on, and at most the limit, or
// defaultObjects without one, but never more than maxObjects. The transition whatif.Waiting selects the objects that wait as before.
func (q question) page(r *whatif.Report) []whatif.Object {
	objects := r.Objects
	switch q.Transition {
	case "":
	case whatif.Waiting:
		objects = r.StillWaiting
	default:
		// They are sorted by transition.
		is := func(o whatif.Object) bool { return o.Transition == q.Transition }
		first := max(0, slices.IndexFunc(objects, is))
		objects = objects[first:]
		if end := slices.IndexFunc(objects, func(o whatif.Object) bool { return !is(o) }); end >= 0 {
			objects = objects[:end]
		}
	}
	first := min(max(q.Offset, 0), len(objects))
	limit := min(q.Limit, maxObjects)
	if limit <= 0 {
		limit = defaultObjects
	}
	return objects[first:min(first+limit, len(objects))]
}

// answered is the answer to changes. It is kept for requests for the next pages of its objects.
type answered struct {
	changes   changes // the request that report answers
	report    *whatif.Report
	moves     int // the number of objects that get other values without an approval or an update, perhaps later
	flows     []Flow
	approvals []awaitedApproval
}

// impossible is the error of changes that a session can't try, other than for lack of rights. /api/whatif shows it as a mistake.
type impossible struct{ error }

// report returns what the changes would do, or the last answer if it is to the same changes. The caller must not change it. An error of the
// session is Forbidden, that of the request's context, or impossible.
func (s *state) report(r *http.Request, asked changes, parsed whatif.Changes) (*answered, error) {
	session, err := s.session(r.Context())
	if err != nil {
		return nil, err
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if err := r.Context().Err(); err != nil {
		// The user has changed the text meanwhile.
		return nil, err
	}
	if s.last != nil && asked.equal(s.last.changes) {
		return s.last, nil
	}
	report, err := limited(r.Context(), s.computing, func() (*whatif.Report, error) { return session.WhatIf(r.Context(), parsed) })
	switch {
	case apierrors.IsForbidden(err), r.Context().Err() != nil:
		return nil, cmp.Or(err, r.Context().Err())
	case err != nil:
		return nil, impossible{err}
	}
	values := make([][]whatif.Value, len(report.Objects))
	for i, o := range report.Objects {
		values[i] = o.Values
	}
	s.last = &answered{asked, report, report.Moves(), flowsOf(values), approvalsOf(values)}
	return s.last, nil
}

// equal reports whether two requests have the same changes.
func (c changes) equal(other changes) bool {
	return c.Manifests == other.Manifests && slices.Equal(c.Set, other.Set) && slices.Equal(c.Delete, other.Delete)
}

// valuesBefore returns, for each assignment, the value that its field has now, as text; nil if it has none, or the user may not read the
// object.
func (s *state) valuesBefore(ctx context.Context, assignments []whatif.Assignment) ([]*string, error) {
	out := make([]*string, len(assignments))
	for i, a := range assignments {
		existing, err := s.cached.Get(ctx, a.Resource, a.Namespace, a.Name)
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		if existing != nil {
			out[i] = textAt(existing, a.Path)
		}
	}
	return out, nil
}

// textAt returns the value at a path of an object as text, as the form for clusters shows it: a string as it is, a list as [a, b], other
// values in JSON; nil if there is none.
func textAt(obj *unstructured.Unstructured, path []string) *string {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	switch value.(type) {
	case nil:
		return nil
	case string, []any:
		return new(inYAML(value))
	}
	// The value comes from JSON.
	encoded, _ := json.Marshal(value)
	return new(string(encoded))
}

// awaitedApproval is an approval for which objects wait.
type awaitedApproval struct {
	Command string `json:"command"` // the command that gives the approval
	Objects int    `json:"objects"` // the number of objects that wait for it
}

// approvalCommand finds the command that gives an approval in whatif.Value.Waits, a text on what an object waits for. The command is the
// first group.
var approvalCommand = regexp.MustCompile(`\((kubectl berth approve [^)]+)\)`)

// approvalsOf returns the approvals for which objects wait, sorted by command. objects has, for each object, the values that change.
func approvalsOf(objects [][]whatif.Value) []awaitedApproval {
	counts := map[string]int{}
	for _, values := range objects {
		commands := map[string]bool{}
		for _, v := range values {
			if found := approvalCommand.FindStringSubmatch(v.Waits); found != nil {
				commands[found[1]] = true
			}
		}
		for command := range commands {
			counts[command]++
		}
	}
	out := make([]awaitedApproval, 0, len(counts))
	for _, command := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, awaitedApproval{command, counts[command]})
	}
	return out
}
