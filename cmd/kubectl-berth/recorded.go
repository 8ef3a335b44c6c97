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
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/simulation"
)

// recordedAt is what Berth has recorded at an object, for users who may not read what decides it.
type recordedAt struct {
	Object string               `json:"object"`
	Values []placement.Recorded `json:"values,omitempty"`
	Events []recordedEvent      `json:"events,omitempty"`
	// Missing says what the user may not read.
	Missing []string `json:"missing"`
}

// recordedEvent is an Event on an object.
type recordedEvent struct {
	Time    time.Time `json:"time"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// prefixesOfEvents are how the reasons of Berth's Events on objects begin.
var prefixesOfEvents = []string{"Placement", "Quota"}

// explainRecorded prints what is recorded at the objects that the arguments name. missing is the error about what the user may not read,
// which it returns if the user may not read the objects, either.
func (o *explainOptions) explainRecorded(ctx context.Context, args []string, missing error) error {
	objects, err := o.existing(ctx, nil, args)
	if err != nil {
		return missing
	}
	options, _, err := o.settings()
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
		// An object without pods, or of a kind that is declared in a configuration that is not given, has no path.
		path, _ := options.Templates.PathOf(obj.Object)
		next := recordedAt{Object: simulation.Describe(obj), Values: placement.RecordedIn(obj, path), Missing: []string{missing.Error()}}
		if next.Events, err = eventsOn(ctx, client, obj); err != nil {
			next.Missing = append(next.Missing, fmt.Sprintf("the Events on it: %v", err))
		}
		all = append(all, next)
	}
	if o.output != "" {
		return printStructured(o.Out, o.output, all)
	}
	p := newPrinter(o.Out)
	for i, r := range all {
		if i > 0 {
			p.line("")
		}
		printRecorded(p, r)
	}
	return p.err
}

// eventsOn returns Berth's Events on an object, the oldest first.
func eventsOn(ctx context.Context, client kubernetes.Interface, obj *unstructured.Unstructured) ([]recordedEvent, error) {
	list, err := client.CoreV1().Events(cmp.Or(obj.GetNamespace(), metav1.NamespaceDefault)).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(obj.GetUID())).String(),
	})
	if err != nil {
		return nil, err
	}
	var out []recordedEvent
	for _, e := range list.Items {
		if slices.ContainsFunc(prefixesOfEvents, func(prefix string) bool { return strings.HasPrefix(e.Reason, prefix) }) {
			out = append(out, recordedEvent{timeOf(e), e.Reason, e.Message})
		}
	}
	slices.SortStableFunc(out, func(a, b recordedEvent) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// timeOf returns when an Event happened last.
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
	p.line("")
	p.line("%s", p.style(bold, "Values"))
	if len(r.Values) == 0 {
		p.line("  No policy has set a value, or each value is the one that was requested.")
	}
	for _, v := range r.Values {
		p.line("  %s: %s", keyName(v.Field, v.Key), plainText(v.Current))
		p.line("    decided by %s; requested: %s", cmp.Or(v.Policy, "a policy"), plainText(v.Requested))
	}
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
