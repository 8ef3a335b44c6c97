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

// Package rules compiles the structured rules of a policy (spec.rules) to a Rego module, so that one engine evaluates all
// policies. The meaning of the rules is specified in docs/rules.md.
//
// Render is a pure function: the same rules give the same text. The text is formatted as by `opa fmt`, and comments say which field
// of the rules each part comes from, such as "# spec.rules[0].require[1]". Module.Field finds the field for a line.
package rules
