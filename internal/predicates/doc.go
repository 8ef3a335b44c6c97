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

// Package predicates runs the filter plugins of kube-scheduler to check whether a pod could run on a node or on a
// cluster, which it treats like a node. It does not schedule: it has no scores, no queue, and no preemption. Each
// result is valid for one snapshot.
//
// A Registry holds all known predicates, and a Set the allowed ones. A NodeCache stores nodes and pods, and returns
// immutable Snapshots. A Set evaluates a pod on the nodes of a Snapshot. The package has no side effects except those
// of plugins that users add.
package predicates
