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

// Package v1alpha1 provides the custom resources of the API group placement.berth.dev: policies that decide where
// workloads may run, quotas, and the status that Berth reports for them.
//
// In a new object, status.observedGeneration is -1, which no generation has. So clients that follow the kstatus
// conventions do not take an object for ready before Berth has processed it.
//
// +kubebuilder:object:generate=true
// +groupName=placement.berth.dev
package v1alpha1
