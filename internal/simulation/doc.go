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

// Package simulation decides objects as the manager does, without the manager. New compiles the policies of a Cluster,
// and loads exactly the types and fields that they read. Decide then decides one object, and Matched yields the existing
// objects of the types that policies may match.
//
//	live API server ─┐
//	manifests ───────┼─► Cluster ─► New: compile, bind, load data ─► Simulation ─► Decide
//	snapshot ────────┘
//
// The commands of the kubectl plugin are thin layers on this package. It compiles, binds, evaluates, and merges with the
// packages that the manager uses, so both get the same result from the same state.
//
// Three things differ from the manager, and the Simulation reports them: it can't verify records without the manager's
// key, it does not query remote engines, and it does not decide by the last good version of a policy.
package simulation
