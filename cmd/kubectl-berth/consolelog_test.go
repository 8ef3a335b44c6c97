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
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/decisionlog"
)

// TestLogFiles checks that the console reads each decision of growing files once, and begins again if a file was replaced.
func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.log"), filepath.Join(dir, "second.log")
	line := func(name string) string {
		return fmt.Sprintf(`{"time":"2026-01-02T03:04:05Z","msg":"placement decision","object":{"name":%q}}`, name)
	}
	write := func(file, text string, flag int) {
		t.Helper()
		out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	position := ""
	check := func(ctx context.Context, wantRestarted bool, want ...string) {
		t.Helper()
		var got []string
		next, restarted, err := logFiles{first, second}.ReadOn(ctx, position, func(e decisionlog.Entry) { got = append(got, e.Object.Name) })
		if diff := cmp.Diff(want, got); diff != "" || restarted != wantRestarted || (err == nil) != (ctx.Err() == nil) {
			t.Errorf("restarted %v, want %v, error %v (-want +got):\n%s", restarted, wantRestarted, err, diff)
		}
		position = next
	}
	write(first, "another program\n"+line("a")+"\n"+line("b")[:30], 0)
	write(second, line("c"), 0)
	check(t.Context(), false, "a", "c")
	check(t.Context(), false)
	write(first, line("b")[30:]+"\n", os.O_APPEND)
	write(second, "\n"+line("d")+"\n"+line("e")+"\n", os.O_APPEND)
	ended, end := context.WithCancel(t.Context())
	end()
	check(ended, false, "b")
	check(t.Context(), false, "d", "e")
	write(second, line("other")+"\n", os.O_TRUNC)
	check(t.Context(), true, "a", "b", "other")
	write(second, line("OTHER")+"\n", os.O_TRUNC)
	check(t.Context(), true, "a", "b", "OTHER")
	write(first, `{"msg":"placement decision","object":1}`+"\n", os.O_APPEND)
	for range 2 {
		if next, _, err := (logFiles{first, second}).ReadOn(t.Context(), position, func(decisionlog.Entry) {}); err == nil || next != position {
			t.Errorf("a line that can't be read: error %v, position %s, then %s", err, position, next)
		}
	}
}
