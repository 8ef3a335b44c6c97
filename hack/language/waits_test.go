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
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheckWaits(t *testing.T) {
	const text = `package p

func f(ctx context.Context) {
	timer, tick, served := time.NewTimer(1), time.NewTicker(1), make(chan int, 1)
	pause := time.NewTimer(1)
	select {
	case <-ctx.Done():
	case <-pause.C:
	}
	select {
	case <-time.After(1):
	case <-ctx.Done():
	}
	select {
	case <-ctx.Done():
	case <-pause.C:
	case <-served:
	}
	select {
	case <-ctx.Done():
	case <-tick.C:
	}
	_, _, _ = make(chan struct{}, 1), make(chan event.GenericEvent, 1), make(chan struct{})
}
`
	var got []string
	for _, f := range checkWaits(parse("internal/p/p.go", []byte(text))) {
		got = append(got, fmt.Sprintf("%d %s", f.line, f.instead))
	}
	if want := []string{"6 notify.Sleep", "10 notify.Sleep", "23 notify.NewSignal", "23 notify.NewSignal"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if found := checkWaits(parse("internal/p/p_test.go", []byte(text))); len(found) > 0 {
		t.Errorf("findings in a test: %v", found)
	}
}

func TestCheckExpressions(t *testing.T) {
	marker := func(length int) string {
		return "// +kubebuilder:validation:XValidation:rule=\"" + strings.Repeat("a", length) + "\",message=\"" + strings.Repeat("b", 300) + "\"\n"
	}
	text := "package v1\n" + marker(200) + marker(201)
	if found := checkExpressions("api/v1/a.go", []byte(text)); len(found) != 1 || found[0].line != 3 {
		t.Errorf("findings %v", found)
	}
	if found := checkExpressions("internal/a.go", []byte(text)); len(found) > 0 {
		t.Errorf("findings outside the API: %v", found)
	}
}

// TestLongExpressionsExist checks that each exception is still needed.
func TestLongExpressionsExist(t *testing.T) {
	files, err := filepath.Glob("../../api/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for beginning := range longExpressions {
		if !strings.Contains(all.String(), beginning) {
			t.Errorf("no expression begins with %q", beginning)
		}
	}
}
