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
	"strings"
)

// Keys that policies look at, or decide; see testdata/policies.yaml.
const (
	forbiddenKey  = "fuzz.berth.dev/forbidden"
	policedKey    = "fuzz.berth.dev/policed"
	selectedKey   = "fuzz.berth.dev/selected"
	refusedKey    = "fuzz.berth.dev/refused"
	noteKey       = "fuzz.berth.dev/note"
	teamKey       = "fuzz.berth.dev/team"
	poolKey       = "fuzz.berth.dev/pool"
	zoneKey       = "fuzz.berth.dev/zone"
	baseKey       = "fuzz.berth.dev/base"
	recordKey     = "placement.berth.dev/requested"
	clustersKey   = "placement.berth.dev/clusters"
	holdFinalizer = "fuzz.berth.dev/hold"
)

// feature is a change of what a request carries.
type feature byte

const (
	nothing feature = iota
	forbiddenLabel
	forbiddenAnnotation
	forbiddenContent
	deletionTimestamp
	finalizer
	noFinalizers
	forgedOwner
	realOwner
	generatedName
	forgedRecord
	forgedManagedFields
	selected
	refused
	ownTeam
	ownNote
	ownSelector
	ownTolerations
	ownAffinity
	ownPriority
	ownSpread
	oddTexts
	noLabels
	currentVersion
	staleVersion
	currentUID
	wrongUID
	numbers
	replicas
	deep
	longList
	large
	oddFields
	suspended
	creationTimestamp
	featureCount
)

// site is where a feature is put: the body of one operation on one side.
type site struct {
	operation
	// policed is the value of the label by which policies match the side's namespaces.
	policed string
	// stored is the object as this side has it; nil if it has none. owner is its Deployment of the same name, likewise.
	stored, owner map[string]any
	body          map[string]any
}

var features = [featureCount]struct {
	name string
	put  func(site)
}{
	nothing:             {"nothing", func(site) {}},
	forbiddenLabel:      {"forbiddenLabel", func(s site) { s.set("yes", "metadata", "labels", forbiddenKey) }},
	forbiddenAnnotation: {"forbiddenAnnotation", func(s site) { s.set("yes", "metadata", "annotations", forbiddenKey) }},
	forbiddenContent:    {"forbiddenContent", site.putForbidden},
	deletionTimestamp:   {"deletionTimestamp", site.putDeletion},
	finalizer: {"finalizer", func(s site) {
		s.set(list(pick(s, holdFinalizer, "foregroundDeletion", "orphan")), "metadata", "finalizers")
	}},
	noFinalizers:        {"noFinalizers", func(s site) { s.set(nil, "metadata", "finalizers") }},
	forgedOwner:         {"forgedOwner", site.putForgedOwner},
	realOwner:           {"realOwner", site.putRealOwner},
	generatedName:       {"generatedName", site.putGenerated},
	forgedRecord:        {"forgedRecord", func(s site) { s.set(pick(s, records...), "metadata", "annotations", recordKey) }},
	forgedManagedFields: {"forgedManagedFields", site.putManagedFields},
	selected:            {"selected", func(s site) { s.set(pick(s, "yes", "no"), "metadata", "labels", selectedKey) }},
	refused:             {"refused", func(s site) { s.set("yes", "metadata", "annotations", refusedKey) }},
	ownTeam:             {"ownTeam", func(s site) { s.set(pick(s, "red", "blue", ""), "metadata", "labels", teamKey) }},
	ownNote:             {"ownNote", func(s site) { s.set(pick(s, "mine", "decided", "ü\u2028<&>\"\\"), "metadata", "annotations", noteKey) }},
	ownSelector: {"ownSelector", func(s site) {
		s.setPods(map[string]any{pick(s, poolKey, "disk", forbiddenKey): pick(s, "fuzz", "ssd", "")}, "nodeSelector")
	}},
	ownTolerations:    {"ownTolerations", site.putTolerations},
	ownAffinity:       {"ownAffinity", site.putAffinity},
	ownPriority:       {"ownPriority", func(s site) { s.setPods(pick(s, "fuzz-high", "system-cluster-critical", "none"), "priorityClassName") }},
	ownSpread:         {"ownSpread", site.putSpread},
	oddTexts:          {"oddTexts", func(s site) { s.set(pick(s, texts...), "metadata", "annotations", "fuzz.berth.dev/odd") }},
	noLabels:          {"noLabels", func(s site) { s.set(nil, "metadata", "labels") }},
	currentVersion:    {"currentVersion", func(s site) { s.set(at(s.stored, "metadata", "resourceVersion"), "metadata", "resourceVersion") }},
	staleVersion:      {"staleVersion", func(s site) { s.set("1", "metadata", "resourceVersion") }},
	currentUID:        {"currentUID", func(s site) { s.set(at(s.stored, "metadata", "uid"), "metadata", "uid") }},
	wrongUID:          {"wrongUID", func(s site) { s.set("5a0b3c1e-0000-4000-8000-000000000000", "metadata", "uid") }},
	numbers:           {"numbers", site.putNumbers},
	replicas:          {"replicas", func(s site) { s.set(json.Number(pick(s, "0", "3", "5", "6", "2147483647")), "spec", "replicas") }},
	deep:              {"deep", site.putDeep},
	longList:          {"longList", site.putLongList},
	large:             {"large", site.putLarge},
	oddFields:         {"oddFields", site.putOddFields},
	suspended:         {"suspended", func(s site) { s.set(pick(s, true, false), "spec", "suspend") }},
	creationTimestamp: {"creationTimestamp", func(s site) { s.set(pick[any](s, "2001-01-01T00:00:00Z", nil), "metadata", "creationTimestamp") }},
}

// numerals are numbers that decoders round, refuse, or write in another way.
var numerals = []string{
	"9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e3", "1.0", "0.1", "-0", "1.5e-7",
	"123456789012345678901234567890", "1E400", "60", "9007199254740992.5", "0",
}

var texts = []string{
	"", "ü€😀", "<script>&amp;</script>", "\u0000", "\u2028\u2029", "\"\\/\b\f\n\r\t", "~0~1/", "{}", "null", "\ufeff", "\ufffd", strings.Repeat("<", 10_000),
}

// records are what a developer who has no key may write in place of Berth's record.
var records = []string{
	"", "{}", "null", "not JSON", `"scheduling":`, `{"labels":{"fuzz.berth.dev/team":{"requested":"red","by":"fuzz-place","set":"x"}},"signature":"AAAA"}`,
	`{"scheduling":{"nodeSelector/fuzz.berth.dev/pool":{"by":"fuzz-place","set":"x"}},"affinity":{"set":"x"},"signature":""}`,
}

// pick returns the variant that the operation's argument chooses.
func pick[T any](s site, variants ...T) T { return variants[int(s.argument)%len(variants)] }

func list(items ...any) []any { return items }

// at returns the value at a path; nil if there is none.
func at(object map[string]any, path ...string) any {
	var value any = object
	for _, name := range path {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	return value
}

// set puts a value into the body. Objects on the way that are missing, or are no objects, are made.
func (s site) set(value any, path ...string) {
	members := s.body
	for _, name := range path[:len(path)-1] {
		next, ok := members[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			members[name] = next
		}
		members = next
	}
	members[path[len(path)-1]] = value
}

// setPods is set below the spec of the object's pods. Kinds without pods get the value in a field that they don't know.
func (s site) setPods(value any, path ...string) {
	s.set(value, append(podSpecPath(s.kind), path...)...)
}

func podSpecPath(k kind) []string {
	switch k {
	case deployment, replicaSet, job, statefulSet, daemonSet:
		return []string{"spec", "template", "spec"}
	case cronJob:
		return []string{"spec", "jobTemplate", "spec", "template", "spec"}
	default:
		return []string{"spec"}
	}
}

func (s site) putForbidden() {
	switch s.kind {
	case configMap:
		s.set("yes", "data", "forbidden")
	case service:
		s.set("NodePort", "spec", "type")
	case widget:
		s.set(true, "spec", "forbidden")
	case namespace:
		s.set("yes", "metadata", "annotations", forbiddenKey)
	case job:
		s.set(99, "spec", "parallelism")
	case deployment, statefulSet:
		if s.argument%2 == 0 {
			s.set(99, "spec", "replicas")
			return
		}
		s.setPods(list(map[string]any{"name": "main", "image": "evil/main"}), "containers")
	default:
		s.setPods(list(map[string]any{"name": "main", "image": "evil/main"}), "containers")
	}
}

func (s site) putDeletion() {
	s.set(pick(s, "2030-01-01T00:00:00Z", "2001-01-01T00:00:00Z"), "metadata", "deletionTimestamp")
	if s.argument%3 == 0 {
		s.set(pick(s, 0, 30), "metadata", "deletionGracePeriodSeconds")
	}
}

func (s site) putForgedOwner() {
	s.set(list(map[string]any{
		"apiVersion": pick(s, "v1", "apps/v1"), "kind": pick(s, "ConfigMap", "Deployment"), "name": "owner",
		"uid": "5a0b3c1e-1111-4000-8000-000000000000", "controller": true,
	}), "metadata", "ownerReferences")
}

// putRealOwner names the Deployment of the same name as the controller. Odd arguments take its template as well, as the
// real controller does.
func (s site) putRealOwner() {
	uid := at(s.owner, "metadata", "uid")
	if uid == nil {
		return
	}
	s.set(list(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": at(s.owner, "metadata", "name"), "uid": uid, "controller": true}), "metadata", "ownerReferences")
	if s.kind == replicaSet && s.argument%2 == 1 {
		s.set(at(s.owner, "spec", "template"), "spec", "template")
	}
}

func (s site) putGenerated() {
	if s.verb != create {
		return
	}
	metadata, _ := s.body["metadata"].(map[string]any)
	delete(metadata, "name")
	s.set("generated-", "metadata", "generateName")
}

func (s site) putManagedFields() {
	s.set(list(map[string]any{
		"manager": pick(s, "berth", "manager", "first"), "operation": pick(s, "Update", "Apply"), "apiVersion": at(s.body, "apiVersion"), "fieldsType": "FieldsV1",
		"time": "2001-01-01T00:00:00Z", "fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + teamKey: map[string]any{}}}},
	}), "metadata", "managedFields")
}

func (s site) putTolerations() {
	toleration := map[string]any{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": json.Number(pick(s, numerals...))}
	second := map[string]any{"key": "b", "operator": "Equal", "value": pick(s, "", "x"), "effect": "NoSchedule"}
	switch s.argument % 5 {
	case 0:
		s.setPods(list(toleration), "tolerations")
	case 1:
		s.setPods(list(second, toleration, second), "tolerations")
	case 2:
		s.setPods(list(second, map[string]any{"key": poolKey, "operator": "Exists", "effect": "NoSchedule"}, toleration), "tolerations")
	case 3:
		s.setPods(list(map[string]any{"operator": "Exists"}, map[string]any{"key": "b", "effect": "NoSchedule"}, second), "tolerations")
	default:
		s.setPods(list(), "tolerations")
	}
}

func (s site) putAffinity() {
	in := func(key, value string) map[string]any {
		return map[string]any{"key": key, "operator": "In", "values": list(value)}
	}
	var terms []any
	switch s.argument % 4 {
	case 0:
		terms = list(map[string]any{"matchExpressions": list(in("disk", "ssd"))}, map[string]any{"matchExpressions": list(in(zoneKey, "b"), in("disk", "hdd"))})
	case 1:
		terms = list(map[string]any{"matchExpressions": list(in("disk", "ssd"), in("disk", "ssd"))}, map[string]any{"matchExpressions": list(in("disk", "ssd"))})
	case 2:
		terms = list(map[string]any{"matchFields": list(in("metadata.name", "node"))})
	default:
		terms = list(map[string]any{"matchExpressions": list(in("x", "y"))}, map[string]any{"matchExpressions": list(in("z", "y"))}, map[string]any{"matchExpressions": list(in("x", "y"))})
	}
	value := map[string]any{"nodeAffinity": map[string]any{
		"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": terms},
		"preferredDuringSchedulingIgnoredDuringExecution": list(map[string]any{
			"weight": pick(s, 1, 100), "preference": map[string]any{"matchExpressions": list(in("p", "q"))},
		}),
	}}
	s.setPods(value, "affinity")
}

func (s site) putSpread() {
	constraint := func(key string) map[string]any {
		return map[string]any{
			"maxSkew": pick(s, 1, 2147483647), "topologyKey": key, "whenUnsatisfiable": pick(s, "DoNotSchedule", "ScheduleAnyway"),
			"labelSelector": map[string]any{"matchLabels": map[string]any{"app": "fuzz"}},
		}
	}
	s.setPods(list(constraint("zone"), constraint("host")), "topologySpreadConstraints")
}

// putNumbers puts a number where the kind takes any, or a large one.
func (s site) putNumbers() {
	number := json.Number(pick(s, numerals...))
	switch s.kind {
	case widget:
		s.set(number, "spec", "number")
		s.set(list(number, json.Number("1.0"), json.Number("1"), number), "spec", "list")
	case configMap, service, namespace:
		s.set(string(number), "metadata", "annotations", "fuzz.berth.dev/number")
	case job:
		s.set(number, "spec", "activeDeadlineSeconds")
	default:
		s.setPods(number, "activeDeadlineSeconds")
		s.setPods(number, "terminationGracePeriodSeconds")
	}
}

func (s site) putDeep() {
	var value any = "bottom"
	for range pick(s, 10, 100, 1000) {
		value = map[string]any{"a": list(value)}
	}
	s.set(value, "spec", "deep")
}

func (s site) putLongList() {
	var out []any
	for i := range pick(s, 10, 100, 500) {
		out = append(out, map[string]any{"key": "k", "operator": "Equal", "value": pick(s, "same", texts[i%2]), "effect": "NoExecute"})
	}
	if s.kind == widget {
		s.set(out, "spec", "list")
		return
	}
	s.setPods(out, "tolerations")
}

// nearLimits is the least argument with which putLarge puts text of a size near the limits of etcd and of ConfigMaps.
const nearLimits = 250

// putLarge puts text that JSON encoders may write six times as long. Few arguments lead to sizes near the limits of etcd and
// of ConfigMaps, since these take long.
func (s site) putLarge() {
	size, path := 10_000, []string{"spec", "large"}
	if s.kind == configMap {
		path = []string{"data", "large"}
	}
	switch {
	case s.argument < nearLimits:
	case s.kind == configMap:
		size = 1_000_000
	default:
		size = 200_000
	}
	s.set(strings.Repeat("<", size), path...)
}

// putOddFields puts fields that look like ones that policies read.
func (s site) putOddFields() {
	s.set(map[string]any{"forbidden": "yes"}, "Data")
	s.set(map[string]any{"forbidden": "yes"}, pick(s, "Metadata", "metadatA", "spec "))
	s.set(nil, "data", pick(s, "null", "forbidden"))
	s.set("yes", "status", "forbidden")
}
