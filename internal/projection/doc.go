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

// Package projection cuts documents down to a set of fields. If only those fields matter, the cut replaces the whole
// document: as the value in an evaluation, and as the key in a cache.
//
// Collect the fields in a FieldSet and call Seal. Then call Project, Value, Size, or AppendKey for each document.
package projection
