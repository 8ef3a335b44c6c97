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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/berth-dev/berth/internal/decisionlog"
)

// logFiles are the paths of files with the log of decisions, to which the manager may add lines. It implements console.Log.
type logFiles []string

// filePosition says up to which byte a file of the log has been read.
type filePosition struct {
	decisionlog.Cursor
	// Before is a digest of the last bytes before the position (digestBefore). If the file has another digest there, it was replaced or
	// written again, and all files are read from their starts.
	Before string
}

// ReadOn calls add with the decisions in the files, one file after the other, each from its last position. position, which is "" for the
// starts, and next are lists with a filePosition for each file, in JSON. restarted reports whether a file was replaced or written again
// since position: then all files are read from their starts.
func (l logFiles) ReadOn(ctx context.Context, position string, add func(decisionlog.Entry)) (next string, restarted bool, err error) {
	positions := make([]filePosition, len(l))
	if position != "" {
		if err := json.Unmarshal([]byte(position), &positions); err != nil {
			return position, false, err
		}
	}
	files := make([]*os.File, len(l))
	for i, name := range l {
		if files[i], err = os.Open(name); err != nil {
			return position, false, fmt.Errorf("--log: %w", err)
		}
		defer func() { _ = files[i].Close() }()
		restarted = restarted || digestBefore(files[i], positions[i].Bytes) != positions[i].Before
	}
	if restarted = restarted && position != ""; restarted {
		positions = make([]filePosition, len(l))
	}
	for i, file := range files {
		if err == nil {
			if err = positions[i].readOn(ctx, file, add); err != nil {
				err = fmt.Errorf("--log %s: %w", l[i], err)
			}
		}
		positions[i].Before = digestBefore(file, positions[i].Bytes)
	}
	encoded, encodingErr := json.Marshal(positions)
	if encodingErr != nil {
		return position, restarted, encodingErr
	}
	return string(encoded), restarted, err
}

// readOn calls add with the decisions in a file after the position, and moves the position behind them. A last line that is not complete
// yet stays behind the position.
func (p *filePosition) readOn(ctx context.Context, file io.ReadSeeker, add func(decisionlog.Entry)) error {
	if _, err := file.Seek(p.Bytes, io.SeekStart); err != nil {
		return err
	}
	for entry, err := range decisionlog.ReadOn(file, &p.Cursor) {
		if err != nil {
			return err
		}
		add(entry)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// maxBefore is the number of bytes before a position that tell a file from another one.
const maxBefore = 4 << 10

// digestBefore returns a digest of the last maxBefore bytes of a file before an offset, or of all bytes before it if these are fewer; "" if
// the file is shorter than the offset.
func digestBefore(file io.ReaderAt, offset int64) string {
	content := make([]byte, min(offset, maxBefore))
	if _, err := file.ReadAt(content, offset-int64(len(content))); err != nil && len(content) > 0 {
		return ""
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
