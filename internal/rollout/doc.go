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

// Package rollout decides which version of a policy is in force (Choose; docs/versions.md), and brings versions into force in stages: it
// finds the stage of a namespace, and decides when a rollout goes on to its next stage (Next).
//
// A version is a policy's spec without spec.rollout and spec.remediation, which apply at once. At most two versions decide at
// the same time: the one that is rolled out, in the namespaces of the stages that are reached, and the one before everywhere
// else. Every replica finds the version for a namespace from the policy's status, which only the leader writes. A replica that
// has not read the newest status yet has reached fewer stages, never more.
package rollout
