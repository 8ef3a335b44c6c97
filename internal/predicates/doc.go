// Package predicates asks the scheduler's own filter plugins whether a pod could run on a node, and on a cluster that is
// looked at as if it were a node. It schedules nothing: it has no scores, no queue and no preemption, and what it says
// is true of one snapshot.
//
// A Registry knows the predicates that there are, a Set is the white-list of those that are in use, a World keeps nodes
// and pods and gives out immutable Snapshots, and a Set judges a pod on the nodes of a Snapshot. It is pure but for the
// plugins that are plugged in: objects in, verdicts out.
package predicates
