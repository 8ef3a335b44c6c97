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

// Package decisionlog writes and reads the log of decisions: a line of JSON for each object that a policy places or moves. It says when an
// object was moved from where to where, why, by which version of a policy, and who approved it. While the log is off, it costs nothing.
package decisionlog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/printable"
)

// Message is the member msg of each line. It tells the lines from those of other programs.
const Message = "placement decision"

// Source is the component that applied a decision: the admission of a request, or remediation.
type Source string

// The sources.
const (
	Admission   Source = "admission"
	Remediation Source = "remediation"
)

// Action is the operation by which a decision was applied to an object: a request that creates or updates it, or remediation's patch or
// eviction.
type Action string

// The actions. Created and Updated are requests of clients, Patched and Evicted those of remediation.
const (
	Created Action = "create"
	Updated Action = "update"
	Patched Action = "patch"
	Evicted Action = "evict"
)

// Limits of an entry, so that a line stays readable: of its changes, and of the bytes of a value.
const (
	maxChanges = 10
	maxValue   = 1024
)

// Entry is one entry of the log: decisions that were applied to one object. The names of the JSON members are stable: members may be added,
// but are never renamed.
type Entry struct {
	// Time is when the entry was written: Write replaces it by its argument now.
	Time   time.Time `json:"time"`
	Source Source    `json:"source"`
	Action Action    `json:"action"`
	Object Object    `json:"object"`
	// Policies are the policy versions that decided the changes.
	Policies []Policy `json:"policies"`
	// Changes are the changes that were made, in the log at most the first maxChanges.
	Changes []Change `json:"changes"`
	// MoreChanges is the number of changes that are not in Changes.
	MoreChanges int `json:"moreChanges,omitempty"`
	// Causes are texts that say why remediation moved an existing object; none for a request.
	Causes []string `json:"causes,omitempty"`
	// User is the name of the user whose request was decided; empty for remediation.
	User string `json:"user,omitempty"`
	// Plans are the digests of the plans that contained the move.
	Plans []string `json:"plans,omitempty"`
	// ApprovedBy are the users who approved the plans in Plans.
	ApprovedBy []string `json:"approvedBy,omitempty"`
	// DurationSeconds is the time from when the cause became known, or the request arrived, until the decision was applied.
	DurationSeconds float64 `json:"durationSeconds"`
}

// Object identifies an object. Group is empty for the core group, and UID for an object that is being created.
type Object struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Resource  string `json:"resource"` // The plural name, such as "deployments".
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Policy is one version of a PlacementPolicy: its name and metadata.generation.
type Policy struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
}

// String returns the name and the generation, such as "zones@3".
func (p Policy) String() string { return fmt.Sprintf("%s@%d", p.Name, p.Generation) }

// Change is the change of one value of an object. From and To are nil if there is no value.
type Change struct {
	// Field says which value was changed, for example "annotation placement.berth.dev/clusters".
	Field string  `json:"field"`
	From  *string `json:"from"` // The value before.
	To    *string `json:"to"`   // The value after.
	// Policy is the name of the policy that set the new value or, if none sets the field any more, that let the requested value return. It
	// is never empty.
	Policy string `json:"policy"`
}

// ObjectOf returns the Object for an object in a namespace. If its name is still to be generated, Name is the prefix of the name.
func ObjectOf(resource schema.GroupVersionResource, namespace string, obj *unstructured.Unstructured) Object {
	return Object{
		Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Kind: obj.GetKind(),
		Namespace: namespace, Name: cmp.Or(obj.GetName(), obj.GetGenerateName()), UID: string(obj.GetUID()),
	}
}

// PoliciesOf returns the policy version of each verdict, in their order and in any mode. The list is never nil, so that it is an array in
// JSON.
func PoliciesOf(verdicts []*placement.Verdict) []Policy {
	out := make([]Policy, len(verdicts))
	for i, v := range verdicts {
		out[i] = Policy{v.Policy.Name, v.Policy.Generation}
	}
	return out
}

// ChangesOf returns the changes that the verdicts of policies with mode Enforce make. It leaves out those that can't be made, those
// that only keep requested values, and all of a verdict with an error. If before is not nil, it is the object before the
// request: From is then its value, and values that it already had are left out. Otherwise, From is that of the verdict's change.
func ChangesOf(verdicts []*placement.Verdict, before *unstructured.Unstructured) (out []Change) {
	for _, v := range verdicts {
		if v.Policy.Mode != placementv1.ModeEnforce || v.Err != nil {
			continue
		}
		for _, c := range v.Changes {
			if c.Immutable != "" || c.RecordsOnly() || before != nil && c.Done(before) {
				continue
			}
			change := Change{Field: c.Subject(), From: c.From, To: c.To, Policy: v.Policy.Name}
			if before != nil {
				change.From = c.Current(before)
			}
			out = append(out, change)
		}
	}
	return out
}

// Log writes decisions. A nil Log writes nothing. It is safe for concurrent use.
type Log struct{ handler slog.Handler }

// New returns a log that writes its entries by a handler. Read can read what slog.JSONHandler writes.
func New(handler slog.Handler) *Log { return &Log{handler} }

// Write writes an entry with the time now. It keeps the first maxChanges changes, shortens texts that are too long, and escapes characters
// that are not visible. An entry that can't be written is lost: a decision does not depend on its log.
func (l *Log) Write(ctx context.Context, now time.Time, e Entry) {
	if l == nil {
		return
	}
	e.bound()
	r := slog.NewRecord(now.UTC(), slog.LevelInfo, Message, 0)
	r.AddAttrs(
		slog.String("source", string(e.Source)), slog.String("action", string(e.Action)), slog.Any("object", e.Object),
		slog.Any("policies", e.Policies), slog.Any("changes", e.Changes),
	)
	if e.MoreChanges > 0 {
		r.AddAttrs(slog.Int("moreChanges", e.MoreChanges))
	}
	for _, list := range []struct {
		name  string
		texts []string
	}{{"causes", e.Causes}, {"plans", e.Plans}, {"approvedBy", e.ApprovedBy}} {
		if len(list.texts) > 0 {
			r.AddAttrs(slog.Any(list.name, list.texts))
		}
	}
	if e.User != "" {
		r.AddAttrs(slog.String("user", e.User))
	}
	r.AddAttrs(slog.Float64("durationSeconds", e.DurationSeconds))
	_ = l.handler.Handle(ctx, r)
}

// bound limits the entry: it keeps the first maxChanges changes, counts the others in MoreChanges, and shortens and escapes texts. It does
// not cut the other lists.
func (e *Entry) bound() {
	if n := len(e.Changes); n > maxChanges {
		e.Changes, e.MoreChanges = e.Changes[:maxChanges], n-maxChanges
	}
	e.Changes = slices.Clone(e.Changes)
	for i := range e.Changes {
		c := &e.Changes[i]
		c.Field, c.From, c.To = text(c.Field), optional(c.From), optional(c.To)
	}
	e.Causes = texts(e.Causes)
	e.User, e.ApprovedBy = text(e.User), texts(e.ApprovedBy)
	e.Object.Kind, e.Object.Name = text(e.Object.Kind), text(e.Object.Name)
}

// text returns a text cut to maxValue bytes, and then with characters that are not visible escaped, so that the result may be longer.
func text(of string) string {
	return printable.Text(printable.Truncate(of, maxValue))
}

// texts returns the result of text for each of several texts.
func texts(of []string) []string {
	out := make([]string, len(of))
	for i, t := range of {
		out[i] = text(t)
	}
	return out
}

// optional returns the result of text for a text that may be nil.
func optional(of *string) *string {
	if of == nil {
		return nil
	}
	return new(text(*of))
}
