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

// Package clusterlist reads and writes the clusters in objects that are placements of a multi-cluster system, such as
// Karmada's PropagationPolicy. In such an object, the developer lists clusters in a field of the system's own. The
// package knows the fields of some kinds; declare others with NewKinds. It has no API client and no clock.
//
// The clusters of an object have a text, the same for all systems. It is a JSON array of names, or absent if the object
// names no clusters. If the field has several terms, each with clusters of its own, the text is a JSON array with an
// item for each term: an array of names, or null if the term names no clusters.
package clusterlist
