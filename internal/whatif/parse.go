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

package whatif

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/types"
	jsonyaml "sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/simulation"
)

// ParseReference parses TYPE/NAME or TYPE/NAMESPACE/NAME. The type policy stands for PlacementPolicies. For a namespaced type without the
// namespace, it finds the only object of that name in all namespaces; none and several are errors. In the other cases, the object need not
// exist.
func ParseReference(ctx context.Context, cluster simulation.Cluster, text string) (Reference, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return Reference{}, fmt.Errorf("%q is not TYPE/NAME or TYPE/NAMESPACE/NAME", text)
	}
	if parts[0] == "policy" {
		parts[0] = "placementpolicies"
	}
	found, err := simulation.FindType(cluster.Catalog(), parts[0])
	if err != nil {
		return Reference{}, err
	}
	out := Reference{Resource: found.GroupVersionResource, NamespacedName: types.NamespacedName{Name: parts[len(parts)-1]}}
	switch {
	case found.Namespaced && len(parts) == 3:
		out.Namespace = parts[1]
	case found.Namespaced:
		out.Namespace, err = namespaceOf(ctx, cluster, found, out.Name)
	case len(parts) == 3:
		err = fmt.Errorf("%q: write TYPE/NAME for %s, which have no namespace", text, found.GroupResource())
	}
	return out, err
}

// namespaceOf returns the namespace of the only object of a type with a name. It returns an error if there is none or several.
func namespaceOf(ctx context.Context, cluster simulation.Cluster, resource policy.Resource, name string) (string, error) {
	objects, err := cluster.List(ctx, resource.GroupVersionResource, (&projection.FieldSet{}).Seal())
	if err != nil {
		return "", err
	}
	var namespaces []string
	for _, obj := range objects {
		if obj.GetName() == name {
			namespaces = append(namespaces, obj.GetNamespace())
		}
	}
	switch len(namespaces) {
	case 1:
		return namespaces[0], nil
	case 0:
		return "", fmt.Errorf("no namespace has an object %q of %s: check the name", name, resource.GroupResource())
	}
	return "", fmt.Errorf("the namespaces %s have an object %q of %s: write TYPE/NAMESPACE/NAME", strings.Join(namespaces, ", "), name,
		resource.GroupResource())
}

// ParseAssignment parses TYPE/[NAMESPACE/]NAME:PATH=VALUE, where VALUE is YAML or, for a label or an annotation, text. Without =VALUE, the
// assignment removes the field.
func ParseAssignment(ctx context.Context, cluster simulation.Cluster, text string) (Assignment, error) {
	name, assignment, ok := strings.Cut(text, ":")
	path, value, hasValue := strings.Cut(assignment, "=")
	if !ok || path == "" {
		return Assignment{}, fmt.Errorf("%q is not TYPE/[NAMESPACE/]NAME:PATH=VALUE", text)
	}
	r, err := ParseReference(ctx, cluster, name)
	if err != nil {
		return Assignment{}, err
	}
	out := Assignment{Reference: r}
	if out.Path, err = parsePath(path); err != nil {
		return Assignment{}, err
	}
	if inLabels(out.Path) && len(out.Path) > 3 {
		return Assignment{}, fmt.Errorf("%q: write a key with dots in brackets: metadata.%s['%s']", text, out.Path[1],
			strings.Join(out.Path[2:], "."))
	}
	if !hasValue {
		return out, nil
	}
	out.Value, out.Text = value, value
	if inLabels(out.Path) {
		return out, nil
	}
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(value), &node); err != nil {
		return Assignment{}, fmt.Errorf("%q: the value is not YAML: %w", text, err)
	}
	if alias := AliasIn(&node); alias != nil {
		return Assignment{}, fmt.Errorf("%q: the value has the YAML alias *%s: write out what it stands for", text, alias.Value)
	}
	if err := jsonyaml.Unmarshal([]byte(value), &out.Value); err != nil {
		return Assignment{}, fmt.Errorf("%q: the value can't be written as JSON: %w", text, err)
	}
	if number, ok := out.Value.(float64); ok && number == float64(int64(number)) {
		out.Value = int64(number)
	}
	return out, nil
}

// AliasIn returns the first YAML alias below a node; nil if there is none. A short text with aliases can stand for a value of any size.
func AliasIn(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node
	}
	for _, item := range node.Content {
		if found := AliasIn(item); found != nil {
			return found
		}
	}
	return nil
}

// inLabels reports whether a path leads to a label or an annotation of an object.
func inLabels(path []string) bool {
	return len(path) > 2 && path[0] == "metadata" && (path[1] == "labels" || path[1] == "annotations")
}

// bracket is a name in brackets and quotes at the beginning of a path.
var bracket = regexp.MustCompile(`^\[(?:'([^']+)'|"([^"]+)")\]`)

// parsePath parses a path of names that are joined by dots, or in brackets and quotes, as in metadata.labels['a.b/c']. An empty name, and
// brackets without a quoted name, such as an index, are errors. An empty path has no names, and is no error.
func parsePath(text string) ([]string, error) {
	var out []string
	for rest := text; rest != ""; {
		if found := bracket.FindStringSubmatch(rest); found != nil {
			out, rest = append(out, found[1]+found[2]), rest[len(found[0]):]
			if rest != "" && rest[0] != '.' && rest[0] != '[' {
				return nil, fmt.Errorf("%q: a dot is missing after %s", text, found[0])
			}
		} else {
			if strings.HasPrefix(rest, "[") {
				return nil, fmt.Errorf("%q: brackets hold a name in quotes, as in metadata.labels['a.b/c']; to change an item of a list, use "+
					"--filename", text)
			}
			name := rest
			if end := strings.IndexAny(rest, ".["); end >= 0 {
				name = rest[:end]
			}
			if name == "" {
				return nil, fmt.Errorf("%q: a name is empty", text)
			}
			out, rest = append(out, name), rest[len(name):]
		}
		if rest == "." {
			return nil, fmt.Errorf("%q: a name is empty", text)
		}
		rest = strings.TrimPrefix(rest, ".")
	}
	return out, nil
}
