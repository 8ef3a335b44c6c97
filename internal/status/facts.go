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

// Package status computes the status of policies, quotas, and limits from the facts that Berth's components report.
//
// Compute, ComputeQuota, and ComputeLimit return a new status. They do not write it. Equal facts give an equal status,
// so the callers can skip writes that change nothing.
package status

// WebhookState is the state in the webhook configuration of the rules of a policy, a quota, or a LimitedResource.
type WebhookState struct {
	// Generation is the object's generation whose rules were written or refused; 0 if none were.
	Generation int64
	// Rejected is the API server's error for the rules of that generation; empty if it accepted them.
	Rejected string
}
