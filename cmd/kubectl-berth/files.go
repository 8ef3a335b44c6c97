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
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/resource"

	"github.com/berth-dev/berth/internal/input"
)

// withFiles adds files, directories, patterns of files, URLs, and the standard input, in, to what a builder reads, as FilenameParam does.
// But more than limit bytes are an error, in a file as in a stream without a size, such as the standard input. URLs have no limit.
func withFiles(builder *resource.Builder, files *resource.FilenameOptions, in io.Reader, limit int64) (*resource.Builder, error) {
	for _, name := range files.Filenames {
		if name == "-" {
			builder = builder.Stream(input.Limit(in, limit, input.TooLarge(limit)), "the standard input")
			continue
		}
		if strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") {
			builder = builder.FilenameParam(false, &resource.FilenameOptions{Filenames: []string{name}})
			continue
		}
		paths, err := pathsOf(name, files.Recursive)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if builder, err = withFile(builder, path, limit); err != nil {
				return nil, err
			}
		}
	}
	return builder, nil
}

// withFile adds one file to what a builder reads. More than limit bytes are an error.
func withFile(builder *resource.Builder, path string, limit int64) (*resource.Builder, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the file %q (if it is a symbolic link, check the file that it names): %w", path, err)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s: %w", path, input.TooLarge(limit))
	case info.Mode().IsRegular():
		return builder.Path(false, path), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return builder.Stream(input.Limit(file, limit, input.TooLarge(limit)), path), nil
}

// pathsOf returns the files that a path or a pattern names. Of a directory, it returns the files with an extension of manifests, such as
// .yaml, also those in its subdirectories if recursive is true. It is an error if there are none.
func pathsOf(name string, recursive bool) ([]string, error) {
	roots := []string{name}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if roots, err = filepath.Glob(name); err != nil {
			return nil, fmt.Errorf("pattern %q is not valid: %w", name, err)
		}
		if len(roots) == 0 {
			return nil, fmt.Errorf("there is no file or directory %q", name)
		}
	}
	var out []string
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && path != root && !recursive:
				return filepath.SkipDir
			case !entry.IsDir() && (path == root || slices.Contains(resource.FileExtensions, filepath.Ext(path))):
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", root, err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no files whose names end with one of %s", name, strings.Join(resource.FileExtensions, ", "))
	}
	return out, nil
}
