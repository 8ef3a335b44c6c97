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

// Package placement computes the placement of an object from the decisions of all policies that match it. The webhook,
// remediation, and the command line all use one Decider: match, restore the requested state, evaluate every matching
// policy, merge the decisions, and record the overwritten values. The package has no API client and no clock.
//
// A record is the annotation of an object with the values that policies replaced; it has an entry for each. A field is one of the parts of
// an object that decisions are merged into: annotations, labels, and scheduling, which is what says in a pod spec where pods run. A
// placement object is one of a multi-cluster system, such as Karmada's PropagationPolicy, that lists clusters in a field of that system.
// All other objects list them in the clusters annotation. An object follows its controller if it keeps the clusters that it copied from it.
// A policy is held if an update must leave the keys that it sets as they are. An object leaves a policy that it matched only before an
// update.
package placement
