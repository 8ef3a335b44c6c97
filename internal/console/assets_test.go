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

package console_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/console"
)

// maxAssets is how much may reach a browser, compressed, in bytes.
const maxAssets = 400 << 10

// namespaces are names that look like addresses.
var namespaces = regexp.MustCompile(`http://www\.w3\.org/(?:2000/svg|1998/Math/MathML|1999/xhtml|1999/xlink|XML/1998/namespace|2000/xmlns/)`)

// TestAssets checks that what reaches a browser is small, that it loads nothing from other hosts, and that pages have no script or style,
// which the policy for content would block.
func TestAssets(t *testing.T) {
	var compressed bytes.Buffer
	zip := gzip.NewWriter(&compressed)
	outside := regexp.MustCompile(`(?i)(?:src|href|url\(|import|fetch\()\s*[=(]?\s*["']?(?:https?:)?//[a-z0-9-]+\.[a-z]`)
	inline := regexp.MustCompile(`(?i)<script(?:[^>]*[^>/])?>[^<]|<style|\sstyle=|\son[a-z]+="`)
	files := map[string]bool{}
	each(t, console.Assets(), func(path string, text []byte) {
		files[path] = true
		if path == "licenses.txt" {
			return
		}
		if found := outside.Find(namespaces.ReplaceAll(text, nil)); found != nil {
			t.Errorf("%s loads from another host: %s", path, found)
		}
		if found := inline.Find(text); found != nil && strings.HasSuffix(path, ".html") {
			t.Errorf("%s has a script or style that is no file: %s", path, found)
		}
		if _, err := zip.Write(text); err != nil {
			t.Fatal(err)
		}
	})
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if compressed.Len() > maxAssets {
		t.Errorf("the assets have %d bytes compressed, more than %d", compressed.Len(), maxAssets)
	}
	t.Logf("the assets have %d bytes compressed", compressed.Len())
	for _, want := range []string{"index.html", "icon.svg", "licenses.txt"} {
		if !files[want] {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestLicenses checks that the licences of the packages of which the pages consist are among the assets.
func TestLicenses(t *testing.T) {
	text, err := fs.ReadFile(console.Assets(), "licenses.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"preact ", "@codemirror/view ", "@lezer/yaml ", "d3-hierarchy ", "d3-sankey ", "yaml ", "Permission is hereby granted"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the licence of %s is missing", want)
		}
	}
}

// TestSources checks that no source of the pages makes elements or code from text, so that names of objects can't become either.
func TestSources(t *testing.T) {
	banned := regexp.MustCompile(`(?i)innerHTML|outerHTML|insertAdjacentHTML|HTMLUnsafe|srcdoc|createContextualFragment|document\.write|\beval\(|new Function\(|` +
		`javascript:|https?://[a-z0-9-]+\.[a-z]`)
	for _, text := range []string{"<p dangerouslySetInnerHTML={{ __html: name }} />", "element.setHTMLUnsafe(name)", `<iframe srcDoc={name} />`} {
		if !banned.MatchString(text) {
			t.Errorf("a source may have %s", text)
		}
	}
	found := 0
	each(t, os.DirFS(filepath.Join("..", "..", "web", "src")), func(path string, text []byte) {
		found++
		if match := banned.Find(text); match != nil {
			t.Errorf("%s has %s", path, match)
		}
	})
	if found < 10 {
		t.Errorf("only %d sources were found", found)
	}
}

// each calls f with the path and text of each file.
func each(t *testing.T, files fs.FS, f func(path string, text []byte)) {
	t.Helper()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err == nil {
			f(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
