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
	"fmt"
	"slices"
	"strings"
)

// A recipe is what the bytes of a fuzz input mean: a sequence of operations, each of operationSize bytes. Every byte
// string is a recipe. A byte that exceeds the number of choices counts modulo that number, so that tables may grow at
// their end without changing what seeds mean.
type recipe []operation

const (
	operationSize = 10
	maxOperations = 8
	maxFeatures   = 4
)

// operation is one request, which is sent to a namespace that policies match and to one that none matches.
type operation struct {
	verb verb
	kind kind
	// name chooses one of two names.
	name byte
	// remediation is the index of the remediation mode of the policies that match the recipe's objects. That of the first operation
	// counts.
	remediation byte
	flags       flags
	// manager chooses one of three field managers.
	manager  byte
	features [maxFeatures]feature
	// argument chooses among the variants of features: numbers, sizes, texts.
	argument byte
}

// remediations are the remediation modes of policies.
var remediations = []string{"Automatic", "Approved", "Manual", "NewOnly", "Off"}

// under returns the recipe for the policies with a remediation mode.
func (r recipe) under(remediation int) recipe {
	out := slices.Clone(r)
	out[0].remediation = byte(remediation)
	return out
}

// isLarge reports whether the recipe has objects near the API server's limits.
func (r recipe) isLarge() bool {
	return slices.ContainsFunc(r, func(op operation) bool { return op.has(large) && op.argument >= nearLimits })
}

type verb byte

const (
	create verb = iota
	apply
	replace
	mergePatch
	jsonPatch
	strategicPatch
	deleteBackground
	deleteForeground
	deleteOrphan
	deleteCollection
	scale
	updateStatus
	ephemeralContainers
	evict
	bind
	verbCount
)

var verbNames = [verbCount]string{
	"create", "apply", "replace", "mergePatch", "jsonPatch", "strategicPatch", "deleteBackground", "deleteForeground",
	"deleteOrphan", "deleteCollection", "scale", "updateStatus", "ephemeralContainers", "evict", "bind",
}

type kind byte

const (
	configMap kind = iota
	pod
	deployment
	replicaSet
	job
	statefulSet
	daemonSet
	service
	widget
	namespace
	cronJob
	kindCount
)

var kindNames = [kindCount]string{
	"configMap", "pod", "deployment", "replicaSet", "job", "statefulSet", "daemonSet", "service", "widget", "namespace", "cronJob",
}

type flags byte

const (
	dryRun flags = 1 << iota
	// force has an apply take fields from other managers.
	force
	// secondVersion uses the version of a widget that no policy names.
	secondVersion
	// modify starts from the stored object, as kubectl edit does, and not from a manifest.
	modify
	// duplicateKeys has the body begin with members that come again later.
	duplicateKeys
	// strict has the API server refuse unknown and duplicate fields.
	strict
	flagCount = 6
)

var flagNames = [flagCount]string{"dryRun", "force", "secondVersion", "modify", "duplicateKeys", "strict"}

func (f flags) has(flag flags) bool { return f&flag != 0 }

// decode reads a recipe. It depends on the bytes alone.
func decode(text []byte) recipe {
	var out recipe
	for len(text) >= operationSize && len(out) < maxOperations {
		at := text[:operationSize]
		text = text[operationSize:]
		op := operation{
			verb: verb(at[0] % byte(verbCount)), kind: kind(at[1] % byte(kindCount)), name: at[2] % 2, remediation: at[2] / 2 % byte(len(remediations)), flags: flags(at[3] % (1 << flagCount)),
			manager: at[4] % 3, argument: at[5+maxFeatures],
		}
		for i := range op.features {
			op.features[i] = feature(at[5+i] % byte(featureCount))
		}
		out = append(out, op)
	}
	return out
}

// encode is decode's inverse.
func (r recipe) encode() []byte {
	var out []byte
	for _, op := range r {
		out = append(out, byte(op.verb), byte(op.kind), op.name+2*op.remediation, byte(op.flags), op.manager)
		for _, f := range op.features {
			out = append(out, byte(f))
		}
		out = append(out, op.argument)
	}
	return out
}

// String writes the recipe as Go, to be copied into the seeds.
func (r recipe) String() string {
	var out strings.Builder
	out.WriteString("recipe{\n")
	for _, op := range r {
		fmt.Fprintf(&out, "\t%v,\n", op)
	}
	return out.String() + "}"
}

func (o operation) String() string {
	out := fmt.Sprintf("{verb: %s, kind: %s, name: %d", verbNames[o.verb], kindNames[o.kind], o.name)
	if o.remediation != 0 {
		out += fmt.Sprintf(", remediation: %d", o.remediation)
	}
	var set []string
	for i, name := range flagNames {
		if o.flags.has(1 << i) {
			set = append(set, name)
		}
	}
	if len(set) > 0 {
		out += ", flags: " + strings.Join(set, " | ")
	}
	if o.manager != 0 {
		out += fmt.Sprintf(", manager: %d", o.manager)
	}
	if features := o.named(); len(features) > 0 {
		out += fmt.Sprintf(", features: with(%s)", strings.Join(features, ", "))
	}
	if o.argument != 0 {
		out += fmt.Sprintf(", argument: %d", o.argument)
	}
	return out + "}"
}

func (o operation) named() []string {
	var out []string
	for _, f := range o.features {
		if f != nothing {
			out = append(out, features[f].name)
		}
	}
	return out
}

func (o operation) has(f feature) bool { return slices.Contains(o.features[:], f) }
