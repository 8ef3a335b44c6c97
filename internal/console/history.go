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
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/decisionlog"
)

// Log is the manager's log of decisions, which the console reads on from the position at which it ended before.
type Log interface {
	// ReadOn calls add with each decision after a position, which is empty for the beginning, and returns the position after these decisions,
	// also with an error. restarted reports that the log no longer has what was before the position, so that ReadOn began at the beginning.
	ReadOn(ctx context.Context, position string, add func(decisionlog.Entry)) (next string, restarted bool, err error)
}

// maxDecisions is the number of decisions that the console keeps of a log at most: the newest ones.
const maxDecisions = 20_000

// log keeps the newest decisions of a Log. It is safe for concurrent use.
type log struct {
	mu sync.Mutex
	// position is the position in the Log, as ReadOn returned it, from which newest reads on; "" for the beginning.
	position string
	// entries are the kept decisions, the newest first. The slice is never changed, since requests read it without mu.
	entries []decisionlog.Entry
	// dropped is the number of decisions that were read and are not kept, because maxDecisions are newer.
	dropped int
}

// newest reads what was added to a Log since the last call, and returns the kept decisions, the newest first, and the number of those that
// are not kept, also if the Log returns an error. The error is that of the Log: what was read before it is kept, and the next call reads
// on.
func (l *log) newest(ctx context.Context, from Log) ([]decisionlog.Entry, int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var added []decisionlog.Entry
	dropped := 0
	keep := func(entries []decisionlog.Entry) []decisionlog.Entry {
		slices.SortStableFunc(entries, func(a, b decisionlog.Entry) int { return b.Time.Compare(a.Time) })
		if n := len(entries) - maxDecisions; n > 0 {
			entries, dropped = slices.Clip(slices.Clone(entries[:maxDecisions])), dropped+n
		}
		return entries
	}
	next, restarted, err := from.ReadOn(ctx, l.position, func(e decisionlog.Entry) {
		if added = append(added, e); len(added) >= 2*maxDecisions {
			added = keep(added)
		}
	})
	if restarted {
		l.entries, l.dropped = nil, 0
	}
	l.position = next
	if len(added) > 0 {
		l.entries = keep(slices.Concat(l.entries, added))
	}
	l.dropped += dropped
	return l.entries, l.dropped, err
}

// historyView is the response of /api/history: selected decisions of the log, if there is one, events from the status of policies, and
// notes on what is missing.
type historyView struct {
	// Log reports whether there is a log of decisions. Without one, there are only the events of policies.
	Log bool `json:"log"`
	// Total is the number of kept decisions that meet the parameters, and Decisions are those of them from offset, at most limit, the newest
	// first.
	Total     int                 `json:"total"`
	Decisions []decisionlog.Entry `json:"decisions"`
	// Events are the events of policies, the newest first: all of them, or those of the policy in the parameters. There are none if the
	// parameter name or q, a part of the name of an object, is set. The parameters resource and namespace do not matter.
	Events []policyEvent `json:"events"`
	Notes  []string      `json:"notes"`
}

// policyEvent is something that happened to a policy, by its status.
type policyEvent struct {
	Time   metav1.Time `json:"time"`
	Policy string      `json:"policy"`
	// Kind says what happened: a plan began (plan), a plan was approved (approval), an object that does not run in its new clusters yet was
	// moved (move), or a condition changed (condition).
	Kind string `json:"kind"`
	// Text describes the event, and Details are more sentences.
	Text    string   `json:"text"`
	Details []string `json:"details"`
}

// history returns decisions of the log, from the parameter offset on and at most limit, and all events of policies. Other parameters select
// decisions: policy, q, which is a part of the namespace and name of an object, resource, such as deployments.apps, and namespace and name,
// which count only together. With name or q, there are no events.
func (c *Console) history(r *http.Request) (*historyView, error) {
	query := r.URL.Query()
	offset, err := number(r, "offset", 0, maxDecisions)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", defaultObjects, maxObjects)
	if err != nil {
		return nil, err
	}
	out := &historyView{Log: c.config.Log != nil, Decisions: []decisionlog.Entry{}, Events: []policyEvent{}, Notes: []string{}}
	if c.config.Log != nil {
		entries, dropped, err := c.logged.newest(r.Context(), c.config.Log)
		if err != nil {
			return nil, err
		}
		if dropped > 0 {
			out.Notes = append(out.Notes, fmt.Sprintf("The log has %d older decisions, which are not shown: kubectl berth history reads "+
				"all of them.", dropped))
		}
		policy, part := query.Get("policy"), strings.ToLower(query.Get("q"))
		for _, e := range entries {
			if !meets(e, policy, part, query.Get("resource"), query.Get("namespace"), query.Get("name")) {
				continue
			}
			if out.Total++; out.Total > offset && len(out.Decisions) < limit {
				out.Decisions = append(out.Decisions, e)
			}
		}
	}
	if query.Get("name") != "" || query.Get("q") != "" {
		return out, nil
	}
	return out, c.addEvents(r, out, query.Get("policy"))
}

// meets reports whether a decision meets all parameters of a request for the history. An empty parameter is met by all decisions, and the
// namespace counts only together with a name. part is in lower case.
func meets(e decisionlog.Entry, policy, part, resource, namespace, name string) bool {
	o := e.Object
	named := o.Resource
	if o.Group != "" {
		named += "." + o.Group
	}
	return (policy == "" || slices.ContainsFunc(e.Policies, func(p decisionlog.Policy) bool { return p.Name == policy })) &&
		(part == "" || strings.Contains(strings.ToLower(o.Namespace+"/"+o.Name), part)) &&
		(resource == "" || resource == named) && (name == "" || name == o.Name && namespace == o.Namespace)
}

// addEvents adds the events of all policies to a response, or of one if policy is not empty, and sorts them. If the policies can't be read,
// it adds a note, or returns the error if there is no log either.
func (c *Console) addEvents(r *http.Request, out *historyView, policy string) error {
	s, err := c.current(r)
	if err != nil {
		return err
	}
	policies, err := s.cached.Policies(r.Context())
	if err != nil {
		if c.config.Log == nil {
			return err
		}
		out.Notes = append(out.Notes, err.Error())
	}
	for i := range policies {
		if policy == "" || policies[i].Name == policy {
			out.Events = append(out.Events, eventsOf(&policies[i])...)
		}
	}
	slices.SortStableFunc(out.Events, func(a, b policyEvent) int {
		return cmp.Or(b.Time.Compare(a.Time.Time), strings.Compare(a.Policy, b.Policy))
	})
	return nil
}

// eventsOf returns the events that the status of a policy tells: of its plan and the plan's approval, of objects that were moved and do not
// run in their new clusters yet, and of conditions.
func eventsOf(p *placementv1.PlacementPolicy) []policyEvent {
	var out []policyEvent
	add := func(at metav1.Time, kind, text string, details ...string) {
		if !at.IsZero() {
			out = append(out, policyEvent{at, p.Name, kind, text, append([]string{}, details...)})
		}
	}
	if plan := p.Status.Plan; plan != nil {
		add(plan.StartTime, "plan", planText(plan), slices.Concat(plan.Causes, plan.Transitions)...)
		if plan.Approval != nil && plan.Approval.Time != nil {
			add(*plan.Approval.Time, "approval", fmt.Sprintf("%s approved the plan %s", plan.Approval.User, plan.Digest))
		}
	}
	for _, m := range p.Status.Moving {
		add(m.Since, "move", string(m.Object)+" was moved, and does not run in its new clusters yet")
	}
	for _, condition := range p.Status.Conditions {
		add(condition.LastTransitionTime, "condition", fmt.Sprintf("%s became %s: %s", condition.Type, condition.Status, condition.Reason),
			condition.Message)
	}
	return out
}

// planText returns a sentence on a plan: its digest, the message why it began, and how many of its objects are done.
func planText(plan *placementv1.RemediationPlan) string {
	done := int32(0)
	if plan.Done != nil {
		done = *plan.Done
	}
	because := ""
	if plan.Message != "" {
		because = " because " + plan.Message
	}
	return fmt.Sprintf("plan %s%s: %d of %d objects done", plan.Digest, because, done, plan.Moves)
}
