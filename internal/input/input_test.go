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

package input_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/berth-dev/berth/internal/input"
)

func TestLimit(t *testing.T) {
	large := errors.New("too large")
	for _, size := range []int{0, 1, 9, 10, 11, 1000} {
		content := bytes.Repeat([]byte("x"), size)
		for name, reader := range map[string]io.Reader{
			"whole": bytes.NewReader(content), "one byte at a time": iotest.OneByteReader(bytes.NewReader(content)), "with the end": iotest.DataErrReader(bytes.NewReader(content)),
		} {
			got, err := io.ReadAll(input.Limit(reader, 10, large))
			if want := min(size, 10); len(got) != want || errors.Is(err, large) != (size > 10) || (err == nil) != (size <= 10) {
				t.Errorf("%d bytes, %s: read %d, error %v", size, name, len(got), err)
			}
		}
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := input.ReadFile(path); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := input.ReadFile(path + "b"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.Truncate(path, input.MaxText+1); err != nil {
		t.Fatal(err)
	}
	if _, err := input.ReadFile(path); err == nil || !strings.HasPrefix(err.Error(), path+": it has more than 256 MiB: ") {
		t.Error(err)
	}
}
