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

package admission_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// What must hold is written here a second time, from docs and testdata/policies.yaml, and shares no code with Berth.

// violation returns why the policies deny an object in a namespace that they match; empty if they don't.
func violation(object map[string]any) string {
	yes := func(path ...string) bool { return at(object, path...) == "yes" }
	switch kind := at(object, "kind"); {
	case kind == "Namespace" && at(object, "metadata", "labels", policedKey) == nil:
		return ""
	case yes("metadata", "labels", forbiddenKey), yes("metadata", "annotations", forbiddenKey), yes("data", "forbidden"):
		return "forbidden label, annotation or data"
	case at(object, "spec", "forbidden") == true:
		return "forbidden field"
	case kind == "Widget" && at(object, "spec", "number") == json.Number("9007199254740993"):
		return "forbidden number"
	case above(at(object, "spec", "replicas"), 5):
		return "too many replicas"
	case above(at(object, "spec", "parallelism"), 5):
		return "too parallel"
	case at(object, "spec", "schedule") == "6 6 6 6 *":
		return "forbidden schedule"
	case kind == "Service" && at(object, "spec", "type") == "NodePort":
		return "forbidden service type"
	case kind != "Namespace" && yes("metadata", "labels", selectedKey) && yes("metadata", "annotations", refusedKey):
		return "refused"
	}
	for _, path := range podSpecs {
		if len(path) == 1 && at(object, "kind") != "Pod" {
			continue
		}
		for _, member := range []string{"containers", "initContainers"} {
			containers, _ := at(object, append(slices.Clone(path), member)...).([]any)
			for _, c := range containers {
				container, _ := c.(map[string]any)
				if image, _ := container["image"].(string); strings.HasPrefix(image, "evil") {
					return "forbidden image"
				}
			}
		}
		if at(object, append(slices.Clone(path), "nodeSelector", forbiddenKey)...) != nil {
			return "forbidden node selector"
		}
	}
	return ""
}

var podSpecs = [][]string{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}}

func above(value any, limit float64) bool {
	number, ok := value.(json.Number)
	if !ok {
		return false
	}
	f, err := number.Float64()
	return err == nil && f > limit
}

// conflictOverDecided reports whether a refusal is a conflict of field managers over what policies decide. The owner of
// such a field depends on whether a policy changed it in the request.
func conflictOverDecided(r response) bool {
	decided := []string{".metadata.labels", ".metadata.annotations", ".nodeSelector", ".tolerations", ".affinity"}
	return r.code == http.StatusConflict && strings.HasPrefix(r.message(), "Apply failed with") &&
		slices.ContainsFunc(decided, func(field string) bool { return strings.Contains(r.message(), field) })
}

// normal returns a copy of an object without what the API server makes of its own, and without what the second and third
// policy decide. The texts of ids become their values.
func normal(object map[string]any, ids map[string]string) map[string]any {
	text := string(encodeJSON(object))
	if uid, _ := at(object, "metadata", "uid").(string); uid != "" {
		// Jobs have it in labels; that of a dry run is nowhere else.
		text = strings.ReplaceAll(text, uid, "uid-of-the-object")
	}
	if name, _ := at(object, "metadata", "name").(string); at(object, "metadata", "generateName") != nil && name != "" {
		text = strings.ReplaceAll(text, name, "generated-name")
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		text = strings.ReplaceAll(text, id, ids[id])
	}
	out, err := decodeObject([]byte(text))
	if err != nil {
		panic(err)
	}
	metadata, _ := out["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace", "selfLink"} {
		delete(metadata, name)
	}
	if metadata["generateName"] != nil {
		delete(metadata, "name")
	}
	if _, there := metadata["deletionTimestamp"]; there {
		metadata["deletionTimestamp"] = "there"
	}
	conditions, _ := at(out, "status", "conditions").([]any)
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		delete(condition, "lastTransitionTime")
	}
	remove(metadata, "labels", teamKey, policedKey, "kubernetes.io/metadata.name")
	if out["kind"] == "Job" {
		// A Job that comes without labels shares the map of its template's, to which the API server adds these, unless a
		// webhook gave it labels of its own.
		remove(metadata, "labels", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
	}
	remove(metadata, "annotations", noteKey, recordKey, clustersKey, selectedKey)
	if spec, ok := out["spec"].(map[string]any); ok && out["kind"] == "Service" {
		for _, name := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
			delete(spec, name)
		}
		ports, _ := spec["ports"].([]any)
		for _, p := range ports {
			port, _ := p.(map[string]any)
			delete(port, "nodePort")
		}
	}
	for _, path := range podSpecs {
		if spec, ok := at(out, path...).(map[string]any); ok && (len(path) > 1 || out["kind"] == "Pod") {
			normalizePods(spec)
		}
	}
	return out
}

// remove deletes keys of a map, and the map if it is empty.
func remove(parent map[string]any, name string, keys ...string) {
	members, ok := parent[name].(map[string]any)
	if !ok {
		return
	}
	for _, key := range keys {
		delete(members, key)
	}
	if len(members) == 0 {
		delete(parent, name)
	}
}

// normalizePods removes from the spec of pods what the second policy decides.
func normalizePods(spec map[string]any) {
	remove(spec, "nodeSelector", poolKey)
	if tolerations, ok := spec["tolerations"].([]any); ok {
		tolerations = slices.DeleteFunc(tolerations, isPoolToleration)
		if spec["tolerations"] = tolerations; len(tolerations) == 0 {
			delete(spec, "tolerations")
		}
	}
	required, _ := at(spec, "affinity", "nodeAffinity", requiredTerms).(map[string]any)
	terms, _ := required["nodeSelectorTerms"].([]any)
	// Terms are ORed and expressions ANDed, so that it means nothing to have one of them twice.
	var kept []any
	for _, t := range terms {
		term, _ := t.(map[string]any)
		for _, name := range []string{"matchExpressions", "matchFields"} {
			expressions, _ := term[name].([]any)
			expressions = distinct(slices.DeleteFunc(expressions, isZone))
			if term[name] = expressions; len(expressions) == 0 {
				delete(term, name)
			}
		}
		if len(term) > 0 {
			kept = append(kept, term)
		}
	}
	kept = distinct(kept)
	if required != nil {
		required["nodeSelectorTerms"] = kept
		affinity, _ := spec["affinity"].(map[string]any)
		node, _ := affinity["nodeAffinity"].(map[string]any)
		if len(kept) == 0 {
			delete(node, requiredTerms)
		}
		if len(node) == 0 {
			delete(affinity, "nodeAffinity")
		}
		if len(affinity) == 0 {
			delete(spec, "affinity")
		}
	}
}

// distinct returns a list without the items that equal an earlier one.
func distinct(items []any) []any {
	var out []any
	for _, item := range items {
		if !slices.ContainsFunc(out, func(o any) bool { return cmp.Equal(o, item) }) {
			out = append(out, item)
		}
	}
	return out
}

const requiredTerms = "requiredDuringSchedulingIgnoredDuringExecution"

func isPoolToleration(item any) bool {
	return cmp.Equal(item, map[string]any{"key": poolKey, "operator": "Exists", "effect": "NoSchedule"})
}

func isZone(item any) bool {
	return cmp.Equal(item, map[string]any{"key": zoneKey, "operator": "In", "values": []any{"a"}})
}

// undecided returns what an object lacks of what the second policy decides; empty if it has all of it.
func undecided(object map[string]any) string {
	if at(object, "kind") == "Namespace" && at(object, "metadata", "labels", policedKey) == nil {
		return ""
	}
	var clusters []string
	text, _ := at(object, "metadata", "annotations", clustersKey).(string)
	switch {
	case at(object, "metadata", "labels", teamKey) != "blue":
		return "label " + teamKey
	case at(object, "metadata", "annotations", noteKey) != "decided":
		return "annotation " + noteKey
	case json.Unmarshal([]byte(text), &clusters) != nil || !slices.Equal(clusters, []string{"north", "south"}):
		return "clusters"
	}
	for _, path := range podSpecs {
		spec, ok := at(object, path...).(map[string]any)
		if !ok || len(path) == 1 && at(object, "kind") != "Pod" || at(object, "kind") == "Widget" {
			continue
		}
		tolerations, _ := spec["tolerations"].([]any)
		terms, _ := at(spec, "affinity", "nodeAffinity", requiredTerms, "nodeSelectorTerms").([]any)
		unbound := func(t any) bool {
			term, _ := t.(map[string]any)
			expressions, _ := term["matchExpressions"].([]any)
			return !slices.ContainsFunc(expressions, isZone)
		}
		switch {
		case at(spec, "nodeSelector", poolKey) != "fuzz":
			return "node selector"
		case !slices.ContainsFunc(tolerations, isPoolToleration):
			return "toleration"
		case len(terms) == 0 || slices.ContainsFunc(terms, unbound):
			return "affinity"
		}
	}
	return ""
}

// compare returns how the object in the namespace that policies match differs from its shadow beyond what they decide.
func compare(policed, shadow map[string]any, policedIDs, shadowIDs map[string]string) string {
	a, b := normal(shadow, shadowIDs), normal(policed, policedIDs)
	if prune(a, b); len(a) == 0 && len(b) == 0 {
		return ""
	}
	return fmt.Sprintf("differs from its shadow (-shadow +policed):\n%s", cmp.Diff(a, b))
}

// prune removes from both objects the members that are equal. Differences of deep objects take cmp far too long.
func prune(a, b map[string]any) {
	for name, value := range a {
		other, there := b[name]
		if there && reflect.DeepEqual(value, other) {
			delete(a, name)
			delete(b, name)
			continue
		}
		x, ok := value.(map[string]any)
		if y, both := other.(map[string]any); ok && both {
			prune(x, y)
		}
	}
}
