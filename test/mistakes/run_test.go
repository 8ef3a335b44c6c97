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

package mistakes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/mistakes"
)

const (
	// concurrency is how many entries run at once; most of their time they wait.
	concurrency = 8
	// settling bounds the waits for what comes before the mistake.
	settling = framework.Timeout
	interval = 50 * time.Millisecond
)

// outcome is what became of one entry.
type outcome struct {
	entry mistakes.Entry
	// err is why the entry is not as its file has it.
	err error
	// silent reports that Berth accepted the mistake without a word and shows that all is well.
	silent bool
}

// runner runs entries against a control plane with a manager.
type runner struct {
	f       *framework.Framework
	applier *applier
	// byKubectl has the names of the entries that kubectl applies.
	byKubectl map[string]bool
	// mu guards names: objects and namespaces that a running entry uses.
	mu    sync.Mutex
	free  *sync.Cond
	names map[string]bool
}

func newRunner(f *framework.Framework, entries []mistakes.Entry) *runner {
	r := &runner{f: f, applier: newApplier(f), byKubectl: byKubectl(entries), names: map[string]bool{}}
	r.free = sync.NewCond(&r.mu)
	return r
}

// all calls run for each entry, beside each other where their isolation allows it, and returns what became of each.
func (r *runner) all(ctx context.Context, entries []mistakes.Entry, run func(context.Context, mistakes.Entry) outcome) []outcome {
	out := make([]outcome, len(entries))
	for _, phase := range []struct {
		isolation mistakes.Isolation
		limit     int
	}{{mistakes.IsolationNone, concurrency}, {mistakes.IsolationNamespace, concurrency}, {mistakes.IsolationAlone, 1}} {
		var group errgroup.Group
		group.SetLimit(phase.limit)
		for i, e := range entries {
			if e.Isolation() == phase.isolation {
				group.Go(func() error {
					release := r.reserve(e)
					defer release()
					out[i] = run(ctx, e)
					return nil
				})
			}
		}
		_ = group.Wait()
	}
	return out
}

// reserve waits until no running entry uses the names of the entry's objects, or the namespaces of its workloads.
func (r *runner) reserve(e mistakes.Entry) (release func()) {
	var wanted []string
	for _, obj := range entryObjects(e) {
		wanted = append(wanted, obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName())
		if e.Isolation() == mistakes.IsolationNamespace && obj.GetNamespace() != "" {
			wanted = append(wanted, obj.GetNamespace())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for slices.ContainsFunc(wanted, func(name string) bool { return r.names[name] }) {
		r.free.Wait()
	}
	for _, name := range wanted {
		r.names[name] = true
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, name := range wanted {
			delete(r.names, name)
		}
		r.free.Broadcast()
	}
}

// mistake runs an entry and deletes what it made.
func (r *runner) mistake(ctx context.Context, e mistakes.Entry) outcome {
	out := outcome{entry: e}
	if err := r.prepare(ctx, e); err != nil {
		out.err = errors.Join(err, r.remove(ctx, e))
		return out
	}
	text, err := r.apply(ctx, e)
	warnings := mistakes.Warnings(text)
	out.err = judge(e, text, err)
	if err == nil && (len(warnings) == 0 || e.Status != nil) {
		shown, green := r.watch(ctx, e, len(warnings) > 0)
		if e.Status != nil && !shown.matched {
			out.err = errors.Join(out.err, fmt.Errorf("no object got the condition %+v within %v, but %s", *e.Status, mistakes.TimeToTell, shown.text))
		}
		out.silent = green && len(warnings) == 0
	}
	out.err = errors.Join(out.err, r.remove(ctx, e))
	return out
}

// judge compares what the author is told with what the entry says.
func judge(e mistakes.Entry, text string, err error) error {
	var errs []error
	if refused := err != nil; refused != (e.Outcome == mistakes.OutcomeRefused) {
		errs = append(errs, fmt.Errorf("want it %s, but the author is told: %s", e.Outcome, text))
	}
	if e.Outcome == mistakes.OutcomeWarned && err == nil {
		text = strings.Join(mistakes.Warnings(text), "\n")
	}
	if missing := mistakes.Missing(text, e.Says); len(missing) > 0 {
		errs = append(errs, fmt.Errorf("the author is not told %q, but: %s", missing, text))
	}
	return errors.Join(errs...)
}

// prepare makes all that exists before the mistake, and waits until Berth decides by it.
func (r *runner) prepare(ctx context.Context, e mistakes.Entry) error {
	stages := []string{e.Before}
	if e.Then != "" {
		stages = append(stages, e.Apply)
	}
	for _, stage := range stages {
		if strings.TrimSpace(stage) == "" {
			continue
		}
		// A policy of the entry before may still be in the API server's copy of the webhooks, and a CRD not served yet.
		var text string
		err := poll(ctx, settling, func(context.Context) (bool, error) {
			var err error
			text, err = r.applier.apply(ctx, stage, false, r.byKubectl[e.Name])
			return err == nil, nil
		})
		if err != nil {
			return fmt.Errorf("what comes before the mistake: %w: %s", err, text)
		}
		err = poll(ctx, settling, func(ctx context.Context) (bool, error) {
			observed, err := r.observe(ctx, mistakes.Objects(stage))
			return !slices.ContainsFunc(observed, func(o mistakes.Observed) bool { return !o.Settled() }), err
		})
		if err != nil {
			return fmt.Errorf("waiting for what comes before the mistake to settle: %w", err)
		}
	}
	return nil
}

// apply applies the manifests with the mistake and returns what the author is told. What the author is told at apply is
// what a dry run tells; where that is as the entry has it, nothing is stored.
func (r *runner) apply(ctx context.Context, e mistakes.Entry) (string, error) {
	manifest := e.Apply
	if e.Then != "" {
		manifest = e.Then
	}
	if e.Status == nil && len(mistakes.Objects(manifest)) <= 1 {
		var text string
		var refusal error
		patience := time.Duration(0)
		if e.Before != "" || e.Then != "" {
			// The API server's copy of the webhooks may lag behind.
			patience = mistakes.TimeToTell / 2
		}
		told := poll(ctx, patience, func(context.Context) (bool, error) {
			text, refusal = r.applier.apply(ctx, manifest, true, r.byKubectl[e.Name])
			return judge(e, text, refusal) == nil, nil
		}) == nil
		if told {
			return text, refusal
		}
	}
	return r.applier.apply(ctx, manifest, false, r.byKubectl[e.Name])
}

// shown is what the status of an entry's objects shows.
type shown struct {
	// matched reports that an object has the entry's condition.
	matched bool
	// text has the conditions.
	text string
}

// watch looks at the status of the entry's objects until it shows what the entry has, at most for TimeToTell. It reports
// whether all objects are green in the end. Where the author was not warned, it has to show that something is wrong, too.
func (r *runner) watch(ctx context.Context, e mistakes.Entry, warned bool) (out shown, green bool) {
	objects := entryObjects(e)
	err := poll(ctx, mistakes.TimeToTell, func(ctx context.Context) (bool, error) {
		observed, err := r.observe(ctx, objects)
		if err != nil {
			return false, err
		}
		green, out.matched, out.text = true, false, ""
		for _, o := range observed {
			green = green && o.Green()
			out.matched = out.matched || e.Status != nil && o.Shows(*e.Status)
			for _, c := range o.Conditions {
				out.text += fmt.Sprintf("%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
			}
		}
		return out.matched && (warned || !green), nil
	})
	if err != nil && !wait.Interrupted(err) {
		out.text += err.Error()
	}
	return out, green
}

// correct runs an entry without a mistake: nothing may be said of it, and it must become green and stay so.
func (r *runner) correct(ctx context.Context, e mistakes.Entry) (out outcome) {
	out.entry = e
	defer func() { out.err = errors.Join(out.err, r.remove(ctx, e)) }()
	if out.err = r.prepare(ctx, e); out.err != nil {
		return out
	}
	text, err := r.applier.apply(ctx, e.Apply, false, r.byKubectl[e.Name])
	if err != nil || len(mistakes.Warnings(text)) > 0 {
		out.err = fmt.Errorf("the author is told of a correct manifest: %s", text)
		return out
	}
	var last []mistakes.Observed
	err = poll(ctx, settling, func(ctx context.Context) (bool, error) {
		last, err = r.observe(ctx, entryObjects(e))
		return !slices.ContainsFunc(last, func(o mistakes.Observed) bool { return !o.Green() || !o.Settled() }), err
	})
	if err != nil {
		out.err = fmt.Errorf("a correct manifest is not green: %w: %+v", err, last)
	}
	return out
}

// observe returns the statuses of those of the objects that are Berth's.
func (r *runner) observe(ctx context.Context, objects []*unstructured.Unstructured) ([]mistakes.Observed, error) {
	var out []mistakes.Observed
	for _, obj := range objects {
		if obj.GroupVersionKind().Group != placementv1.GroupVersion.Group {
			continue
		}
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(obj.GroupVersionKind())
		if err := r.f.Client.Get(ctx, key(obj), stored); err != nil {
			return nil, err
		}
		var status struct {
			Status struct {
				ObservedGeneration int64              `json:"observedGeneration"`
				Conditions         []metav1.Condition `json:"conditions"`
				Findings           []any              `json:"findings"`
			} `json:"status"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, &status); err != nil {
			return nil, err
		}
		out = append(out, mistakes.Observed{
			Generation: stored.GetGeneration(), ObservedGeneration: status.Status.ObservedGeneration, Conditions: status.Status.Conditions,
			Findings: len(status.Status.Findings),
		})
	}
	return out, nil
}

// remove deletes the entry's objects, policies first, and waits until they are gone. Namespaces stay: nothing here ends
// their termination.
func (r *runner) remove(ctx context.Context, e mistakes.Entry) error {
	objects := slices.DeleteFunc(entryObjects(e), func(obj *unstructured.Unstructured) bool { return obj.GetKind() == "Namespace" })
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		rank := func(obj *unstructured.Unstructured) int {
			if obj.GroupVersionKind().Group == placementv1.GroupVersion.Group {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	for _, obj := range objects {
		err := poll(ctx, settling, func(ctx context.Context) (bool, error) {
			named := obj.DeepCopy()
			named.SetNamespace(key(obj).Namespace)
			err := r.f.Client.Delete(ctx, named, client.PropagationPolicy(metav1.DeletePropagationBackground))
			return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || apierrors.IsMethodNotSupported(err), nil
		})
		if err != nil {
			return fmt.Errorf("deleting %s %s: %w", obj.GetKind(), key(obj), err)
		}
	}
	return nil
}

// entryObjects returns the objects of all manifests of an entry.
func entryObjects(e mistakes.Entry) []*unstructured.Unstructured {
	return mistakes.Objects(e.Before + "\n---\n" + e.Apply + "\n---\n" + e.Then)
}

func key(obj *unstructured.Unstructured) client.ObjectKey {
	// The client leaves the namespace out for kinds that have none.
	return client.ObjectKey{Namespace: cmp.Or(obj.GetNamespace(), metav1.NamespaceDefault), Name: obj.GetName()}
}

// poll calls the function at once and then at intervals, until it returns true or an error, or the time is over.
func poll(ctx context.Context, limit time.Duration, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, interval, limit, true, done)
}
