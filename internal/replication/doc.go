// Package replication says what of a cluster object is kept as policy data, and brings the clusters of every known
// inventory into one normal form. It is pure: objects in, documents out.
package replication
