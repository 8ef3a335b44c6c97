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

// with is the features of an operation.
func with(some ...feature) (out [maxFeatures]feature) {
	copy(out[:], some)
	return out
}

// seeds are attacks that once succeeded, and plain uses of every verb and kind. Names say what they try.
var seeds = []struct {
	name  string
	steps recipe
}{
	{"create a terminating object by server-side apply", recipe{
		{verb: apply, kind: configMap, features: with(forbiddenContent, deletionTimestamp, finalizer)},
	}},
	{"create a terminating Service by server-side apply", recipe{
		{verb: apply, kind: service, features: with(forbiddenContent, deletionTimestamp), argument: 1},
	}},
	{"create a terminating Pod by server-side apply", recipe{
		{verb: apply, kind: pod, features: with(deletionTimestamp), argument: 1},
	}},
	{"create with a deletionTimestamp in a POST", recipe{
		{verb: create, kind: configMap, features: with(forbiddenContent, deletionTimestamp, finalizer)},
	}},
	{"patch a terminating object to forbidden content", recipe{
		{verb: create, kind: configMap, features: with(finalizer)},
		{verb: deleteBackground, kind: configMap},
		{verb: mergePatch, kind: configMap, features: with(forbiddenContent)},
	}},
	{"replace a terminating object, and change its finalizers with its content", recipe{
		{verb: create, kind: widget, features: with(finalizer)},
		{verb: deleteForeground, kind: widget},
		{verb: replace, kind: widget, flags: modify, features: with(forbiddenContent, noFinalizers)},
		{verb: mergePatch, kind: widget, features: with(noFinalizers)},
	}},
	{"apply to a terminating object", recipe{
		{verb: apply, kind: deployment, features: with(finalizer)},
		{verb: deleteOrphan, kind: deployment},
		{verb: apply, kind: deployment, flags: force, manager: 1, features: with(forbiddenContent, deletionTimestamp)},
	}},
	{"a ReplicaSet whose controller does not exist", recipe{
		{verb: create, kind: replicaSet, features: with(forgedOwner)},
	}},
	{"a ReplicaSet gets a controller that does not exist", recipe{
		{verb: create, kind: replicaSet},
		{verb: replace, kind: replicaSet, features: with(forgedOwner), argument: 1},
	}},
	{"a ReplicaSet whose controller has another template", recipe{
		{verb: create, kind: deployment},
		{verb: create, kind: replicaSet, features: with(realOwner)},
	}},
	{"a ReplicaSet with the template of its controller", recipe{
		{verb: create, kind: deployment},
		{verb: create, kind: replicaSet, features: with(realOwner), argument: 1},
	}},
	{"tolerationSeconds beyond the precision of float64", recipe{
		{verb: create, kind: deployment, features: with(ownTolerations)},
	}},
	{"tolerationSeconds of the largest int64", recipe{
		{verb: create, kind: deployment, features: with(ownTolerations), argument: 1},
	}},
	{"a forbidden number beyond the precision of float64", recipe{
		{verb: create, kind: widget, features: with(numbers)},
	}},
	{"a number that no float64 represents", recipe{
		{verb: create, kind: widget, features: with(numbers), argument: 9},
		{verb: apply, kind: widget, name: 1, features: with(numbers), argument: 10},
		{verb: create, kind: widget, name: 1, features: with(numbers), argument: 4},
	}},
	{"scale to forbidden replicas", recipe{
		{verb: create, kind: deployment},
		{verb: scale, kind: deployment},
	}},
	{"scale a StatefulSet, a ReplicaSet, and a custom resource", recipe{
		{verb: create, kind: statefulSet},
		{verb: scale, kind: statefulSet, argument: 4},
		{verb: create, kind: replicaSet},
		{verb: scale, kind: replicaSet, argument: 4},
		{verb: create, kind: widget, features: with(replicas)},
		{verb: scale, kind: widget, argument: 4},
		{verb: scale, kind: widget, flags: secondVersion, argument: 4},
	}},
	{"objects whose reviews exceed 7 MiB", recipe{
		{verb: create, kind: configMap, features: with(large), argument: 250},
		{verb: mergePatch, kind: configMap, features: with(forbiddenContent)},
		{verb: mergePatch, kind: configMap, features: with(oddTexts), argument: 2},
	}},
	{"a version that no policy names", recipe{
		{verb: create, kind: widget, flags: secondVersion, features: with(forbiddenContent)},
		{verb: create, kind: widget, flags: secondVersion},
		{verb: apply, kind: widget, flags: secondVersion | force, features: with(forbiddenLabel)},
		{verb: mergePatch, kind: widget, features: with(numbers), argument: 1},
	}},
	{"a record that the developer wrote", recipe{
		{verb: create, kind: deployment, features: with(forgedRecord, ownTeam, ownSelector), argument: 6},
		{verb: mergePatch, kind: deployment, features: with(forgedRecord), argument: 4},
		{verb: replace, kind: deployment, features: with(forgedRecord), argument: 5},
	}},
	{"a generated name", recipe{
		{verb: create, kind: pod, features: with(generatedName, ownTolerations, ownAffinity), argument: 11},
		{verb: create, kind: configMap, features: with(generatedName, forbiddenContent)},
	}},
	{"duplicate keys", recipe{
		{verb: create, kind: configMap, flags: duplicateKeys},
		{verb: create, kind: widget, flags: duplicateKeys},
		{verb: create, kind: widget, flags: duplicateKeys | strict},
		{verb: mergePatch, kind: widget, flags: duplicateKeys},
	}},
	{"labels that take an object out of a policy, and back", recipe{
		{verb: create, kind: configMap, features: with(selected, refused)},
		{verb: create, kind: configMap, features: with(refused)},
		{verb: jsonPatch, kind: configMap, features: with(selected)},
		{verb: mergePatch, kind: configMap, features: with(selected), argument: 1},
		{verb: strategicPatch, kind: configMap, features: with(selected)},
	}},
	{"affinities, twice the same expression", recipe{
		{verb: apply, kind: daemonSet, features: with(ownAffinity, ownTolerations, ownSpread), argument: 1},
		{verb: apply, kind: daemonSet, features: with(ownAffinity), argument: 3},
		{verb: replace, kind: daemonSet, features: with(ownAffinity), argument: 2},
	}},
	{"a suspended Job changes where it runs", recipe{
		{verb: create, kind: job, features: with(suspended, ownSelector), argument: 4},
		{verb: strategicPatch, kind: job, features: with(ownSelector), argument: 1},
		{verb: mergePatch, kind: job, features: with(suspended), argument: 1},
		{verb: mergePatch, kind: job, features: with(forbiddenContent)},
	}},
	{"a Pod is bound and evicted", recipe{
		{verb: create, kind: pod},
		{verb: bind, kind: pod},
		{verb: ephemeralContainers, kind: pod},
		{verb: replace, kind: pod, flags: modify, features: with(oddTexts), argument: 6},
		{verb: evict, kind: pod},
		{verb: mergePatch, kind: pod, features: with(forbiddenLabel)},
		{verb: updateStatus, kind: pod},
	}},
	{"Namespaces", recipe{
		{verb: create, kind: namespace, features: with(forbiddenLabel)},
		{verb: create, kind: namespace},
		{verb: apply, kind: namespace, flags: force, features: with(forbiddenAnnotation)},
		{verb: mergePatch, kind: namespace, features: with(noLabels)},
		{verb: deleteBackground, kind: namespace},
		{verb: mergePatch, kind: namespace, features: with(forbiddenLabel)},
	}},
	{"dry runs", recipe{
		{verb: create, kind: cronJob, flags: dryRun, features: with(forbiddenContent)},
		{verb: create, kind: cronJob},
		{verb: apply, kind: cronJob, flags: dryRun | force, manager: 1, features: with(ownTolerations), argument: 2},
		{verb: deleteCollection, kind: cronJob, flags: dryRun},
		{verb: deleteCollection, kind: cronJob},
	}},
	{"forged metadata", recipe{
		{verb: create, kind: service, features: with(forgedManagedFields, creationTimestamp, wrongUID)},
		{verb: replace, kind: service, flags: modify, features: with(forgedManagedFields, currentUID)},
		{verb: apply, kind: service, features: with(currentVersion, noLabels)},
	}},
	{"deep and long", recipe{
		{verb: create, kind: widget, features: with(deep, longList), argument: 2},
		{verb: create, kind: pod, features: with(longList), argument: 1},
		{verb: create, kind: statefulSet, features: with(oddFields, ownPriority, longList), argument: 3},
	}},
}

// seedName returns the name of the seed that an input is; empty if it is none.
func seedName(text []byte) string {
	for _, seed := range seeds {
		for i, mode := range remediations {
			if string(seed.steps.under(i).encode()) == string(text) {
				return seed.name + ", remediation mode " + mode
			}
		}
	}
	return ""
}
