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

// Package podscheduling flattens, composes, and merges the fields of a pod spec that say where pods run.
//
// Parse and Validate check what a policy decides. Flatten turns a pod spec into a flat map of values by merge key, so that
// decisions are merged key by key, as labels are. Compose joins the affinities, which have no precedence. Apply writes the
// result into a pod spec. Split takes an affinity that a user changed apart again. The functions do not change their
// arguments; results share parts of them.
package podscheduling
