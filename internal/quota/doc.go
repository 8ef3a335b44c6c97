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

// Package quota decides requests against ScopedQuotas, ClusterScopedQuotas, and LimitedResources, and counts what
// objects take.
//
// For each quota and limit, the package generates a policy module from the spec. The module decides whether the quota
// applies to an object, what it covers, and whether it is exceeded. Kubernetes' own quota evaluators measure what an
// object takes. The results are those of the API server's ResourceQuota plug-in
// (k8s.io/apiserver/pkg/admission/plugin/resourcequota, CheckRequest), with one exception. If Berth does not know the
// usage yet, the request is not denied for good: the client is asked to try again.
package quota
