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
package placement
