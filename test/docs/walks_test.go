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

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// maxStops and maxPackages are the maximum numbers of stops of a walk, and of packages in which they are. A longer walk is a reason to
// simplify the code.
const (
	maxStops    = 20
	maxPackages = 10
)

// TestWalks checks that the code has every stop of the walks in docs/architecture.md.
func TestWalks(t *testing.T) {
	functions := declaredFunctions(t)
	sections := regexp.MustCompile(`(?m)^#+ `).Split(contents(t, filepath.Join(root, "docs/architecture.md")), -1)
	item := regexp.MustCompile(`(?m)^\d+\. (.*)$`)
	stop := regexp.MustCompile("^`([\\w.]+)`: \\S")
	walks := 0
	for _, section := range sections {
		title, text, _ := strings.Cut(section, "\n")
		if !strings.HasPrefix(title, "The walk of ") {
			continue
		}
		walks++
		items := item.FindAllStringSubmatch(text, -1)
		if len(items) == 0 || len(items) > maxStops {
			t.Errorf("%s has %d stops, want 1 to %d", title, len(items), maxStops)
		}
		packages := sets.New[string]()
		for _, found := range items {
			name := stop.FindStringSubmatch(found[1])
			switch {
			case name == nil:
				t.Errorf("%s: a stop does not begin with `package.Function` or `package.Type.Method` and a colon: %s", title, found[0])
			case !functions[name[1]]:
				t.Errorf("%s: there is no function %s; correct docs/architecture.md", title, name[1])
			default:
				of, _, _ := strings.Cut(name[1], ".")
				packages.Insert(of)
			}
		}
		if len(packages) > maxPackages {
			t.Errorf("%s passes through %d packages, want at most %d: %v", title, len(packages), maxPackages, sets.List(packages))
		}
	}
	if walks == 0 {
		t.Error("docs/architecture.md has no walks")
	}
}

// declaredFunctions returns the functions and methods of the product, as package.Function and package.Type.Method.
func declaredFunctions(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, dir := range []string{"api", "cmd", "controllers", "internal", "webhooks"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, declaration := range file.Decls {
				if function, ok := declaration.(*ast.FuncDecl); ok {
					out[file.Name.Name+"."+receiver(function)+function.Name.Name] = true
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// receiver returns the name of a method's type and a dot; empty for a function.
func receiver(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return ""
	}
	of := function.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	name, _ := of.(*ast.Ident)
	return name.Name + "."
}
