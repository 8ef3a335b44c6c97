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

package console

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	jsonyaml "sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/whatif"
)

// Limits of the manifests of a request: their size in bytes, the number of policies among them, and the number of mistakes in the response.
const (
	maxManifests = 1 << 20
	maxPolicies  = 100
	maxMistakes  = 100
)

// Mistake is an error or a warning on the changes of a request.
type Mistake struct {
	// Line and Column count from 1 in the text of all manifests of the request. They are 0 if the place is unknown, as for mistakes in Set
	// and Delete.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Object is the kind and name of the object, such as "PlacementPolicy eu-pci"; empty if the mistake is in no object, or in no YAML.
	Object  string `json:"object,omitempty"`
	Error   bool   `json:"error"` // otherwise it is a warning
	Message string `json:"message"`

	// fatal reports whether the changes can't be tried at all because of the mistake.
	fatal bool
}

// document is one YAML document of a text.
type document struct {
	// before is the number of lines of the whole text before the document.
	before int
	text   string
	// lines are the lines of the document; nil until one of them is needed.
	lines []string
	// root is the parsed document. The method objects sets it.
	root yaml.Node
}

// split returns the documents of a text that are more than white space. As for kubectl, a line with only --- separates them.
func split(text string) (out []document) {
	before, start, end, n := 0, 0, 0, 0
	add := func() {
		if part := text[start:end]; strings.TrimSpace(part) != "" {
			out = append(out, document{before: before, text: part})
		}
	}
	for line := range strings.Lines(text) {
		n++
		if rest, ok := strings.CutPrefix(line, "---"); ok && strings.TrimSpace(rest) == "" {
			add()
			before, start = n, end+len(line)
		}
		end += len(line)
	}
	add()
	return out
}

// lineIn matches a line number in the errors of the parsers of YAML.
var lineIn = regexp.MustCompile(`\bline (\d+): ?`)

// objects returns the objects of a document, those in a List one by one, or the mistake because of which it has none: invalid YAML, an
// alias, or no kind. If the document has only comments, both are nil.
func (d *document) objects() ([]*unstructured.Unstructured, *Mistake) {
	if err := yaml.Unmarshal([]byte(d.text), &d.root); err != nil {
		return nil, d.syntaxMistake(err)
	}
	if alias := whatif.AliasIn(&d.root); alias != nil {
		return nil, &Mistake{
			Line: d.before + alias.Line, Column: alias.Column, Error: true, fatal: true,
			Message: "the console takes no aliases of YAML: write out what *" + alias.Value + " stands for",
		}
	}
	text, err := jsonyaml.YAMLToJSON([]byte(d.text))
	if err != nil {
		return nil, d.syntaxMistake(err)
	}
	if string(text) == "null" {
		// It has only comments.
		return nil, nil
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(text); err != nil {
		return nil, &Mistake{Line: d.before + 1, Column: 1, Error: true, fatal: true, Message: "this is not an object of Kubernetes: " +
			err.Error()}
	}
	if !obj.IsList() {
		return []*unstructured.Unstructured{obj}, nil
	}
	var out []*unstructured.Unstructured
	// The function returns no error, and the items are unstructured because the list is.
	_ = obj.EachListItem(func(item runtime.Object) error {
		out = append(out, item.(*unstructured.Unstructured))
		return nil
	})
	return out, nil
}

// syntaxMistake returns the fatal mistake for an error of a parser of YAML, at the line that the error names, or else at the start of the
// document.
func (d *document) syntaxMistake(err error) *Mistake {
	out := &Mistake{Error: true, fatal: true, Line: d.before + 1, Column: 1}
	message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	if found := lineIn.FindStringSubmatch(message); found != nil {
		// The expression matches digits.
		line, _ := strconv.Atoi(found[1])
		out.Line = d.before + line
		out.Column = 1 + indentation(d.line(line))
		message = strings.Replace(message, found[0], "", 1)
	}
	out.Message = "this is not valid YAML: " + message
	return out
}

// line returns line n of the document, of which the first is 1; "" if there is none.
func (d *document) line(n int) string {
	if d.lines == nil {
		d.lines = strings.Split(d.text, "\n")
	}
	if n < 1 || n > len(d.lines) {
		return ""
	}
	return d.lines[n-1]
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

var (
	// pathIn matches the path of a field in a message.
	pathIn = regexp.MustCompile(`\b(?:apiVersion|kind|metadata|spec)(?:\.[A-Za-z][A-Za-z0-9]*|\[[^\]]*\])*`)
	// stepIn matches the steps of a path.
	stepIn = regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*|\[[^\]]*\]`)
	// regoIn matches a place in the Rego of a policy. The name of the file is that of the policy.
	regoIn = regexp.MustCompile(`\.rego:(\d+)(?::(\d+))?`)
)

// mistake returns the mistake in an object of the document for a message, with the place that the message names: a line of Rego, or the
// field with the longest path in the message. If it names none, the place is the start of the object. The place of an item of a List is
// unknown.
func (d *document) mistake(obj *unstructured.Unstructured, message string, isError bool) Mistake {
	out := Mistake{Object: strings.TrimSpace(obj.GetKind() + " " + obj.GetName()), Error: isError, Message: message}
	if len(d.root.Content) == 0 || strings.HasSuffix(obj.GetKind(), "List") {
		return out
	}
	root := d.root.Content[0]
	if found := regoIn.FindStringSubmatch(message); found != nil {
		if node := find(root, []string{"spec", "rego"}); node.Kind == yaml.ScalarNode {
			out.Line, out.Column = d.inBlock(node, found[1], found[2])
			return out
		}
	}
	path := ""
	for _, found := range pathIn.FindAllString(message, -1) {
		if len(found) > len(path) {
			path = found
		}
	}
	node := find(root, stepIn.FindAllString(path, -1))
	out.Line, out.Column = d.before+node.Line, node.Column
	return out
}

// inBlock returns the line and column in the whole text of a line and column in the value of a node, such as spec.rego, a text of several
// lines. line and column are digits; an empty column is 1. If the value is not written as a block, it returns the place of the node.
func (d *document) inBlock(node *yaml.Node, line, column string) (int, int) {
	if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		return d.before + node.Line, node.Column
	}
	// The expressions match digits, or nothing.
	row, _ := strconv.Atoi(line)
	// The message may have text of the user.
	row = min(row, max(1, strings.Count(d.text, "\n")-node.Line))
	col, err := strconv.Atoi(column)
	if err != nil {
		col = 1
	}
	indent := 0
	for n := node.Line + 1; ; n++ {
		text := d.line(n)
		if strings.TrimSpace(text) != "" || n > node.Line+row {
			indent = indentation(text)
			break
		}
	}
	return d.before + node.Line + row, indent + col
}

// find returns the node at a path below a node, or the last one on the path that exists, or node itself. For a field whose value is no
// scalar, it returns the node of the field's name.
func find(node *yaml.Node, path []string) *yaml.Node {
	at := node
	for _, step := range path {
		next, key := child(node, strings.Trim(step, `[]"`))
		if next == nil {
			break
		}
		node, at = next, next
		if key != nil && next.Kind != yaml.ScalarNode {
			at = key
		}
	}
	return at
}

// child returns the node of a field or a list item, named by step, and for a field also the node of its name; nil if there is none.
func child(node *yaml.Node, step string) (value, key *yaml.Node) {
	switch node.Kind {
	case yaml.AliasNode:
		return child(node.Alias, step)
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1], node.Content[i]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], nil
		}
	}
	return nil, nil
}

// linesOf returns the first and the last line, from 1, of a field in a manifest, or of the innermost field around it that the manifest has;
// 0 if it has none, or field is "".
func linesOf(manifest, field string) (from, to int) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(manifest), &root); err != nil || len(root.Content) == 0 {
		return 0, 0
	}
	node := root.Content[0]
	for _, step := range stepIn.FindAllString(field, -1) {
		value, key := child(node, strings.Trim(step, `[]"`))
		if value == nil {
			break
		}
		node, from = value, value.Line
		if key != nil {
			from = key.Line
		}
	}
	if from == 0 {
		return 0, 0
	}
	return from, lastLine(node)
}

// lastLine returns the last line of a node of YAML and of what is in it.
func lastLine(node *yaml.Node) int {
	last := node.Line
	if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		last += 1 + strings.Count(strings.TrimSuffix(node.Value, "\n"), "\n")
	}
	for _, item := range node.Content {
		last = max(last, lastLine(item))
	}
	return last
}
