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

// Package input reads files and streams that others wrote, up to a size. Without it, a small compressed file, a device, or a stream
// without an end takes all memory.
package input

import (
	"fmt"
	"io"
	"os"
)

// MaxText is the maximum size of a file or stream with manifests, test cases, or a configuration, in bytes.
const MaxText = 256 << 20

// ReadFile reads a file of at most MaxText bytes. Errors contain its path.
func ReadFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > MaxText {
		return nil, fmt.Errorf("%s: %w", path, TooLarge(MaxText))
	}
	out, err := io.ReadAll(Limit(file, MaxText, TooLarge(MaxText)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// TooLarge returns the error for text of more than limit bytes.
func TooLarge(limit int64) error {
	return fmt.Errorf("it has more than %s: split it into several files", Size(limit))
}

// Limit returns a reader of the bytes of another one that fails with tooLarge after limit bytes, if there are more. io.LimitReader would
// end there, as if the rest did not exist.
func Limit(reader io.Reader, limit int64, tooLarge error) io.Reader {
	return &limited{reader: reader, left: limit, tooLarge: tooLarge}
}

// limited is the reader that Limit returns.
type limited struct {
	reader   io.Reader
	left     int64 // how many bytes Read may still return in all
	tooLarge error
}

func (l *limited) Read(out []byte) (int, error) {
	if int64(len(out)) > l.left+1 {
		out = out[:l.left+1]
	}
	n, err := l.reader.Read(out)
	if int64(n) > l.left {
		n, err = int(l.left), l.tooLarge
	}
	l.left -= int64(n)
	return n, err
}

// Size returns a number of bytes for a message, in MiB, rounded up.
func Size(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }
