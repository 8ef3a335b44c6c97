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

// Package audit holds what the admission webhooks share for their audit annotations.
//
// The annotations have few, fixed keys, so that an index of audit logs gets no new field with each policy. The API
// server prefixes them with the webhook's name and a slash. If it calls a webhook more than once within a request, it
// keeps the first value of a key.
package audit

import (
	"strings"

	"github.com/berth-dev/berth/internal/printable"
)

// Keys that both webhooks use.
const (
	// Outcome is the key for the result of the request.
	Outcome = "outcome"
	// DryRunResult is the key for what policies or quotas in mode DryRun would have done.
	DryRunResult = "would"
)

// maxValue bounds the value of an audit annotation, in bytes.
const maxValue = 4096

// Value joins texts by a separator to the value of an audit annotation. A longer value than maxValue bytes is cut between characters, so
// that it has at most as many bytes with the "..." at its end.
func Value(texts []string, separator string) string {
	return printable.Truncate(strings.Join(texts, separator), maxValue)
}
