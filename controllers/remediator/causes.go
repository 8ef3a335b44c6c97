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

package remediator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

// Limits of facts: of the fields that one names, and of the bytes of a value.
const (
	maxFields = 2
	maxValue  = 40
)

// blame tells the ledger that verdicts may be due to a change of data that no sweep has followed yet.
func (c *Controller) blame(key remediation.Key, verdicts []*placement.Verdict) {
	for _, v := range verdicts {
		if len(v.Changes) == 0 || !v.Policy.RemediatesExisting() {
			continue
		}
		if cause := c.dataCause(v.Policy); !cause.Unknown() {
			c.Ledger.Blame(c.Clock.Now(), cause, []string{v.Policy.Name}, key)
		}
	}
}

// dataCause returns the cause for changes of data that the sweep has not followed yet; the zero Cause if there are none.
func (c *Controller) dataCause(p *placement.Policy) (out remediation.Cause) {
	facts := c.facts(p)
	if len(facts) == 0 && !c.groups.Stale(p) {
		return out
	}
	return withFacts(remediation.Cause{Data: sets.New(anyData)}, facts)
}

// Names of data in causes: data of which it is not known what changed, and what predicates read.
const (
	anyData        = "data that the policy reads"
	predicatesData = "the nodes or pods that the policy's predicates read"
)

// withFacts returns the cause with facts. If there are any, the types of the facts are those that changed in fields that the policy reads.
func withFacts(cause remediation.Cause, facts []remediation.Fact) remediation.Cause {
	if len(facts) == 0 {
		return cause
	}
	data := cause.Data.Intersection(sets.New(predicatesData))
	for _, fact := range facts {
		data.Insert(fact.Resource)
	}
	cause.Data, cause.Facts = data, facts
	return cause
}

// dataChanges are changes of the data. facts has the facts of policies, which are found once for all objects.
type dataChanges struct {
	*embedded.Changes
	facts sync.Map
}

// changesSinceSweep returns what changed in the data since the last sweep began; nil if that is not known.
func (c *Controller) changesSinceSweep() *dataChanges {
	if c.Data == nil {
		return nil
	}
	from, to := c.swept.Load(), c.Data.State()
	if from == nil || *from == to {
		return nil
	}
	changes := c.lately.Load()
	if changes == nil || !changes.Between(*from, to) {
		changes = &dataChanges{Changes: to.Since(*from)}
		c.lately.Store(changes)
	}
	return changes
}

// facts returns facts about the changes since the last sweep in what a policy reads, with at most remediation.MaxCauses objects of a type.
func (c *Controller) facts(p *placement.Policy) []remediation.Fact {
	changes := c.changesSinceSweep()
	if changes == nil {
		return nil
	}
	if known, ok := changes.facts.Load(p); ok {
		return known.([]remediation.Fact)
	}
	out := c.factsOf(changes.Changes, c.Registry.Get(p.Name).BindingOf(p))
	changes.facts.Store(p, out)
	return out
}

// factsOf returns facts about changes in what the policy of a binding reads; none if the binding is nil.
func (c *Controller) factsOf(changes *embedded.Changes, binding *policy.Binding) (out []remediation.Fact) {
	if binding == nil {
		return nil
	}
	for _, r := range binding.Resources {
		fields := binding.Fields[r.GroupVersionResource]
		if fields == nil {
			continue
		}
		objects, _ := changes.Objects(r.GroupVersionResource, fields, remediation.MaxCauses)
		cluster, resource := slices.Contains(binding.Clusters, r.GroupVersionResource), r.GroupResource().String()
		kind := cmp.Or(c.Catalog.Kind(r.GroupVersionResource), resource)
		for _, object := range objects {
			out = append(out, remediation.Fact{
				Resource: resource, Namespace: object.Namespace, Cluster: cluster,
				Text: printable.Text(kind + " " + strings.TrimPrefix(object.Namespace+"/"+object.Name, "/") + ": " + describe(object, cluster)),
			})
		}
	}
	return out
}

// describe describes the change of an object. It has the values of fields only if the object represents a cluster: others may be secret.
func describe(object embedded.ObjectChange, values bool) string {
	switch {
	case object.Created:
		return "created"
	case object.Deleted:
		return "deleted"
	}
	var texts []string
	for _, d := range slices.Concat(object.Normal, object.Fields) {
		text := fieldName(d.Path) + " changed"
		if from, to := valueText(d.From), valueText(d.To); values && from != "" && to != "" {
			text = fieldName(d.Path) + " " + from + " → " + to
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) > maxFields || object.More {
		texts = append(texts[:min(len(texts), maxFields)], "and others")
	}
	return strings.Join(texts, ", ")
}

// fieldName names a field of an object or of its normal form.
func fieldName(path []string) string {
	inMetadata := path
	if len(path) == 3 && path[0] == "metadata" {
		inMetadata = path[1:]
	}
	if len(inMetadata) == 2 && (inMetadata[0] == "labels" || inMetadata[0] == "annotations") {
		return strings.TrimSuffix(inMetadata[0], "s") + " " + inMetadata[1]
	}
	var out strings.Builder
	for i, name := range path {
		switch {
		case strings.ContainsAny(name, "./ "):
			fmt.Fprintf(&out, "[%q]", name)
		case i > 0:
			out.WriteString("." + name)
		default:
			out.WriteString(name)
		}
	}
	return out.String()
}

// valueText returns a value for a message; "" for an object or an array.
func valueText(value ast.Value) string {
	switch v := value.(type) {
	case nil:
		return "none"
	case ast.String:
		if len(v) > maxValue {
			return fmt.Sprintf("%q...", strings.ToValidUTF8(string(v[:maxValue]), ""))
		}
		return fmt.Sprintf("%q", string(v))
	case ast.Number, ast.Boolean, ast.Null:
		return v.String()
	}
	return ""
}

// maxAction is the maximum length of the actions in the note of an Event, in bytes, so that there is room for the causes.
const maxAction = 603

// movedNote is the note of the Event on an object that was moved.
func movedNote(action string, reasons remediation.Reasons) string {
	out := printable.Truncate(action, maxAction) + "; cause: " + strings.Join(reasons.Shown, ", ")
	if len(reasons.ApprovedBy) > 0 {
		out += "; approved by " + strings.Join(reasons.ApprovedBy, ", ")
	}
	return out
}

// logMove writes a move to the log of decisions and to the trace.
func (c *Controller) logMove(ctx context.Context, s *scope, outcome string, began time.Time, reasons remediation.Reasons) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(tracing.Cause.StringSlice(reasons.Causes))
	}
	if c.Decisions == nil {
		return
	}
	if !reasons.Since.IsZero() {
		began = reasons.Since
	}
	action := decisionlog.Patched
	if outcome == metrics.RemediationEvicted {
		action = decisionlog.Evicted
	}
	now := c.Clock.Now()
	c.Decisions.Write(ctx, now, decisionlog.Entry{
		Source: decisionlog.Remediation, Action: action,
		Object: decisionlog.ObjectOf(s.key.Resource, s.key.Namespace, s.object), Policies: decisionlog.PoliciesOf(s.due),
		Changes: decisionlog.ChangesOf(s.due, nil), Causes: reasons.Causes, Plans: reasons.Plans, ApprovedBy: reasons.ApprovedBy,
		DurationSeconds: now.Sub(began).Seconds(),
	})
}
