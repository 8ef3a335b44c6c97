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

package watches

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func TestRestoreDetector(t *testing.T) {
	h := NewRestoreDetector()
	told := 0
	h.Subscribe(func() { told++ })
	lw := cache.ToListerWatcherWithContext(h.Wrap(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &unstructured.UnstructuredList{}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), nil
		},
	}))
	mustWatch := func(o metav1.ListOptions) watch.Interface {
		t.Helper()
		w, err := lw.WatchWithContext(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	continued := metav1.ListOptions{ResourceVersion: "7"}
	first := mustWatch(continued)

	h.ReportRestore()
	select {
	case _, open := <-first.ResultChan():
		if open {
			t.Error("an event of nothing")
		}
	case <-time.After(time.Minute):
		t.Fatal("the watch goes on")
	}
	first.Stop()
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	// A reflector that gets this error from a watch or a list lists without a version.
	if _, err := lw.WatchWithContext(t.Context(), continued); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch is continued: %v", err)
	}
	if _, err := lw.ListWithContext(t.Context(), continued); !apierrors.IsResourceExpired(err) {
		t.Errorf("a list is continued: %v", err)
	}
	if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{Continue: "page"}); err != nil {
		t.Error(err)
	}
	if _, err := lw.WatchWithContext(t.Context(), continued); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch is continued after a page of a list: %v", err)
	}
	for name, begin := range map[string]func() error{
		"list": func() error { _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); return err },
		"stream": func() error {
			mustWatch(metav1.ListOptions{SendInitialEvents: new(true)}).Stop()
			return nil
		},
	} {
		h.ReportRestore()
		if err := begin(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		mustWatch(continued).Stop()
	}
}
