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

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/simulation"
)

// recordedAt is what Berth has recorded at an object, for users who may not read what decides it: the values in the object's record, and
// Events.
type recordedAt struct {
	Object string `json:"object"` // the kind, namespace, and name
	// Recorded is always true. Programs tell this output from an explain.Explanation by it.
	Recorded bool `json:"recorded"`
	placement.ObjectRecord
	Events []recordedEvent `json:"events,omitempty"`
	// Missing are sentences that say what the output lacks, such as what the user may not read.
	Missing []string `json:"missing"`
}

// recordedEvent has the time, the reason, and the message of an Event on an object, or of one that sums up Events on objects in its
// namespace, which its message then says.
type recordedEvent struct {
	Time    time.Time `json:"time"` // when it happened last
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// Sentences about what the recorded state of an object lacks.
const (
	withoutReasons = "--why-not and --limit have no effect here: they select reasons, which are known only to users who may read what " +
		"decides the object."
	withoutConfig = "What is unknown above may be declared in the manager's configuration, under podTemplates or placements: name the file " +
		"by --config."
)

// explainRecorded prints what Berth recorded at the objects that the arguments name. missing is the error that says what the user may not
// read. It is returned if the user may not read the objects, either.
func (o *explainOptions) explainRecorded(ctx context.Context, args []string, missing error) error {
	objects, err := o.existing(ctx, nil, args)
	if apierrors.IsForbidden(err) {
		return missing
	}
	if err != nil {
		return err
	}
	options, _, err := o.settings()
	if err != nil {
		return err
	}
	mapper, err := o.flags.ToRESTMapper()
	if err != nil {
		return err
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var all []recordedAt
	for _, obj := range objects {
		next := recordedAt{Object: simulation.Describe(obj), Recorded: true, Missing: []string{missing.Error()}}
		if next.ObjectRecord, err = recordOf(obj, options, mapper); err != nil {
			return err
		}
		if next.Events, err = eventsOn(ctx, client, obj); err != nil {
			next.Missing = append(next.Missing, fmt.Sprintf("the Events on the object: %v", err))
		}
		next.Missing = append(next.Missing, o.lacking(next.Values)...)
		all = append(all, next)
	}
	return printEach(o.Out, o.output, all, printRecorded)
}

// recordOf returns the values that Berth's record in an object has, with the current ones; no values without a record. It does not verify
// the record. For a record that can't be read, Unreadable is set, which is no error. It is an error if the API server does not serve the
// object's kind.
func recordOf(obj *unstructured.Unstructured, options simulation.Options, mapper meta.RESTMapper) (placement.ObjectRecord, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return placement.ObjectRecord{}, fmt.Errorf("finding the resource of the kind %s: %w", gvk.Kind, err)
	}
	// An object without pods, or of a kind that is declared in a configuration that is not given, has no path.
	path, _ := options.Templates.PathOf(obj.Object)
	return placement.RecordedIn(obj, path, options.ClusterLists.Of(mapping.Resource.GroupResource())), nil
}

// lacking returns sentences on flags: without --config, that it may make values known that are unknown, if some are; with --why-not or
// --limit, that these have no effect.
func (o *explainOptions) lacking(values []placement.Recorded) []string {
	var out []string
	if o.config == "" && slices.ContainsFunc(values, func(v placement.Recorded) bool { return v.Unknown != "" }) {
		out = append(out, withoutConfig)
	}
	if o.whyNot != "" || o.limited {
		out = append(out, withoutReasons)
	}
	return out
}

// eventsOn returns Berth's Events on an object, and those on its namespace that sum up Events on objects, the oldest first.
func eventsOn(ctx context.Context, client kubernetes.Interface, obj *unstructured.Unstructured) ([]recordedEvent, error) {
	namespace := obj.GetNamespace()
	selectors := []fields.Set{{"involvedObject.uid": string(obj.GetUID())}}
	if namespace != "" {
		selectors = append(selectors, fields.Set{"involvedObject.kind": namespaceKind, "involvedObject.name": namespace})
	}
	var all []corev1.Event
	for i, selector := range selectors {
		list, err := client.CoreV1().Events(cmp.Or(namespace, metav1.NamespaceDefault)).List(ctx,
			metav1.ListOptions{FieldSelector: selector.String()})
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return isSum(e) != (i > 0) })...)
	}
	return ownEvents(all), nil
}

const namespaceKind = "Namespace"

// isSum reports whether an Event sums up Events on objects in a namespace. An Event on the Namespace itself is in the namespace default.
func isSum(e corev1.Event) bool {
	return e.InvolvedObject.Kind == namespaceKind && e.InvolvedObject.Namespace != ""
}

// ownEvents returns those of the Events that name Berth as their controller and that Berth emits on objects, the oldest first.
func ownEvents(all []corev1.Event) []recordedEvent {
	var out []recordedEvent
	for _, e := range all {
		message := e.Message
		if isSum(e) {
			message = "objects of the namespace without an Event of their own: " + message
		}
		if events.OnObjects(e.ReportingController, e.Reason) {
			out = append(out, recordedEvent{timeOf(e), e.Reason, message})
		}
	}
	slices.SortStableFunc(out, func(a, b recordedEvent) int { return a.Time.Compare(b.Time) })
	return out
}

// timeOf returns when an Event happened last: the last time of its series, or else eventTime, or else lastTimestamp; zero if it has none.
func timeOf(e corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if !e.EventTime.IsZero() {
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}

func printRecorded(p *printer, r recordedAt) {
	p.line("%s", p.style(bold, r.Object))
	p.line("This is what Berth recorded at the object. You may not read what decides it, so the rule, and the reasons, are missing.")
	p.line("Neither the record nor the Events are verified: users who may write the object, or create Events, may have forged them.")
	p.line("")
	p.line("%s", p.style(bold, "Values"))
	printRecord(p, r.ObjectRecord)
	if len(r.Events) > 0 {
		p.line("")
		p.line("%s", p.style(bold, "Events"))
	}
	for _, e := range r.Events {
		p.line("  %s %s: %s", e.Time.UTC().Format(time.RFC3339), e.Reason, paragraph(e.Message))
	}
	p.line("")
	p.line("%s", p.style(bold, "Missing"))
	for _, text := range r.Missing {
		p.line("  %s", paragraph(text))
	}
}

func printRecord(p *printer, r placement.ObjectRecord) {
	switch {
	case r.CopiedFrom != "":
		p.line("  The record is a copy of that of %s, which controls the object: explain that instead.", r.CopiedFrom)
	case r.Unreadable:
		p.line("  Unknown: the record, annotation %s, can't be read.", placementv1.RequestedAnnotation)
	case len(r.Values) == 0:
		p.line("  No policy has set a value, or each value is the one that was requested.")
	}
	for _, v := range r.Values {
		policy := cmp.Or(v.Policy, "a policy")
		switch name := keyName(v.Field, v.Key); {
		case v.Unknown != "":
			p.line("  %s: unknown: %s", name, v.Unknown)
			p.line("    recorded for %s; requested: %s", policy, plainText(v.Requested))
		case v.Changed:
			p.line("  %s: %s", name, plainText(v.Current))
			p.line("    recorded for %s, and changed since by another client, so the current value counts as requested", policy)
		default:
			p.line("  %s: %s", name, plainText(v.Current))
			p.line("    decided by %s; requested: %s", policy, plainText(v.Requested))
		}
	}
}
