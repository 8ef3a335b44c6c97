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

// Package policy compiles placement policies and determines which cluster data they read.
//
// Compile returns a Module, the compiled and analysed policy, and BoundedCompiler calls it within a deadline. Package language defines what
// policies may use, package analysis finds what a Module reads, and package lint finds probable mistakes. Bind resolves the resource types
// that a Module reads to types that the API server serves. The package does no I/O: the interface ServedTypes describes the API server.
package policy
