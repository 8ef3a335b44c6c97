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

// Package typecheck finds expressions in a policy that can never have a value, or never the value that their author
// intended, given the schemas of the objects that the policy reads. It does no I/O: callers pass the schemas.
//
// Check compiles the policy once more, for OPA's type checker only, together with generated modules that give each
// document its type. The module in force is compiled without them, so a schema never changes a decision.
package typecheck
