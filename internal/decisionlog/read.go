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

package decisionlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// maxLine is the maximum length of a line of a log, in bytes. A longer line is an error, after which nothing more is read.
const maxLine = 1 << 20

// Read returns the entries of a log, each with an error if its line can't be read. It skips lines that other programs wrote. It accepts the
// prefixes that kubectl logs adds with --prefix and --timestamps.
func Read(r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		number := 0
		for lines.Scan() {
			number++
			entry, ok, err := parse(lines.Text())
			if err != nil {
				err = fmt.Errorf("line %d: %w", number, err)
			}
			if (ok || err != nil) && !yield(entry, err) {
				return
			}
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(Entry{}, fmt.Errorf("line %d has more than %d bytes", number+1, maxLine))
		} else if err != nil {
			yield(Entry{}, err)
		}
	}
}

// Cursor is a position in a log: the start, for the zero value, or the end of a line. It does not identify the log.
type Cursor struct {
	Bytes int64 // The number of bytes before it.
	Lines int   // The number of lines before it.
}

// ReadOn returns the entries after a cursor, and moves the cursor behind each of them. The reader must be at the cursor. If the last line
// has no end yet, it stays behind the cursor, unless it is a complete entry. ReadOn ends at the first error, and leaves the cursor before
// the line that caused it.
func ReadOn(r io.Reader, at *Cursor) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		length, ends := 0, false
		lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
			advance, line, err := bufio.ScanLines(data, atEOF)
			length, ends = advance, advance > 0 && data[advance-1] == '\n'
			return advance, line, err
		})
		for lines.Scan() {
			entry, ok, err := parse(lines.Text())
			if err != nil {
				yield(Entry{}, fmt.Errorf("line %d: %w", at.Lines+1, err))
				return
			}
			if !ok && !ends {
				return
			}
			at.Bytes += int64(length)
			at.Lines++
			if ok && !yield(entry, nil) {
				return
			}
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(Entry{}, fmt.Errorf("line %d has more than %d bytes", at.Lines+1, maxLine))
		} else if err != nil {
			yield(Entry{}, err)
		}
	}
}

// parse returns the entry in a line. ok is false, without an error, if another program wrote the line, and with one if the line is an entry
// that can't be decoded.
func parse(line string) (out Entry, ok bool, err error) {
	line = withoutPrefix(line)
	var head struct {
		Message string `json:"msg"`
	}
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &head) != nil || head.Message != Message {
		return out, false, nil
	}
	if err := json.Unmarshal([]byte(line), &out); err != nil {
		return out, false, fmt.Errorf("the decision can't be read: %w", err)
	}
	return out, true, nil
}

// withoutPrefix returns a line of kubectl logs without the name of the pod at its start, as in "[pod/POD/CONTAINER] ", and without the time
// after that. Either may be missing, and any other text before the entry stays.
func withoutPrefix(line string) string {
	if strings.HasPrefix(line, "[pod/") {
		_, line, _ = strings.Cut(line, "] ")
	}
	if first, rest, ok := strings.Cut(line, " "); ok {
		if _, err := time.Parse(time.RFC3339Nano, first); err == nil {
			return rest
		}
	}
	return line
}
