// Package replication defines which parts of a cluster object become replica data. It also converts the cluster objects
// of every known inventory to one normal form.
//
// Prepare strips an object and adds its normal form. The package does no I/O.
package replication
