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

// Package status has what several controllers that write the status of policies, quotas, and LimitedResources have in common: conditions,
// their messages, and facts of which one controller tells others.
package status

import (
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/typecheck"
)

// WebhookState says for which generation of a policy, a quota, or a LimitedResource the webhook rules by which the API server calls Berth
// for it were last written, and, if the API server rejected these rules, with which error.
type WebhookState struct {
	// Generation is the generation of that object whose webhook rules were last written or refused; 0 if none were.
	Generation int64
	// Rejected is the API server's error for the webhook rules of that generation; empty if it accepted them.
	Rejected string
}

// TypeState is what the typecheck controller found in a policy: the result of the check of the types in its Rego or CEL expressions, other
// findings, and the error if the types could not be checked. It does not say which generation of the policy was checked.
type TypeState struct {
	typecheck.Result
	// Others are the probable mistakes in the policy besides those in types, as package findings found them, such as in spec.match; empty if
	// it found none.
	Others []findings.Finding
	// Err is the reason why the types could not be checked; nil if they were checked.
	Err error
}
