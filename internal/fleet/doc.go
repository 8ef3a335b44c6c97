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

// Package fleet says in which clusters and on which nodes the existing objects are that policies place, where policies want them, and in
// which state each of them is.
//
//	Simulation ─► New: decide each object once ─► Fleet ─► Table: count by cluster, node, zone, or region
//	                                                  └──► In: the objects of one place
//
// It decides objects that are equal for a policy once, and counts objects with equal lists of clusters together. So the cost grows with the
// number of objects, and with the lengths of the lists that differ, but not with the number of objects times the number of clusters.
package fleet
