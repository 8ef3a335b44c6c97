// Package predicates runs the filter plugins of kube-scheduler to check whether a pod could run on a node or on a
// cluster, which it treats like a node. It does not schedule: it has no scores, no queue, and no preemption. Each
// result is valid for one snapshot.
//
// A Registry holds all known predicates, and a Set the allowed ones. A World stores nodes and pods, and returns
// immutable Snapshots. A Set evaluates a pod on the nodes of a Snapshot. The package has no side effects except those
// of plugins that users add.
package predicates
