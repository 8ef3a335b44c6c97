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

// Package engine has what all engines that evaluate policies have in common: the errors of an evaluation, and the limit
// of its input. Package embedded evaluates policies in this process. Package remote evaluates policies whose decisions a
// remote engine makes.
package engine

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// ErrDeadline is the error of an evaluation in this process that exceeded its deadline, also while it waited to begin. A remote engine that
// responds too late causes a RemoteError instead.
var ErrDeadline = errors.New("the evaluation exceeded its deadline")

// NotReplicatedError is the error of an evaluation that began before the data that the policy reads was complete. It names the data, but
// not the policy.
type NotReplicatedError struct {
	// Data names the missing data, as the policy's text or the API server names it.
	Data string
}

func (e *NotReplicatedError) Error() string {
	return fmt.Sprintf("Berth has no complete copy of %s yet", e.Data)
}

// StaleError is the error of a policy whose data is too old: the API server has not confirmed the replica of a resource
// type for longer than the policy allows.
type StaleError struct {
	Resource schema.GroupVersionResource // the type whose replica is too old
	// Confirmed is when the API server last confirmed the replica of the type.
	Confirmed time.Time
	// Max is the limit that the policy sets in spec.maxStaleness.
	Max time.Duration
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("the API server has not confirmed Berth's copy of %s since %s, which is longer than spec.maxStaleness, %s; check the "+
		"connection to the API server and whether it serves the type",
		e.Resource.GroupResource(), e.Confirmed.UTC().Format(time.RFC3339), e.Max)
}

// LimitError is the error of an evaluation that exceeded a size limit: of a builtin function's operands or results, of
// the number of predicate calls, or of the decision.
type LimitError struct {
	// Function is the name of the builtin function, of OPA or of Berth, whose operands or result exceed the limit; empty if the limit concerns
	// something else.
	Function string
	// Operand names what is too large, as in "operand 1": an operand, all operands together, an amount, the evaluation, or the decision.
	Operand string
	// Size is the measured size in units of Unit. Measuring stops beyond the limit, so the real size may be larger.
	Size int
	// Limit is the largest permitted size, in units of Unit.
	Limit int
	// Unit is the unit of Size and Limit, in the plural.
	Unit string
}

func (e *LimitError) Error() string {
	what := e.Operand
	if e.Function != "" {
		what = e.Function + ": " + what
	}
	return fmt.Sprintf("%s has at least %d %s, but the limit is %d", what, e.Size, e.Unit, e.Limit)
}

// InputError is the error for an object that is not evaluated because the fields that the policy reads are larger, as JSON, than
// spec.limits.inputBytes of the policy. Other fields of the object do not count.
type InputError struct {
	// Size is the size in bytes, as JSON, of the fields of the object that the policy reads. Limit is the maximum from
	// spec.limits.inputBytes.
	Size, Limit int
}

func (e *InputError) Error() string {
	return fmt.Sprintf("what the policy reads of the object has %d bytes as JSON, at most %d are evaluated (spec.limits.inputBytes of the "+
		"policy): make the object smaller, or have the policy's limit raised", e.Size, e.Limit)
}

// CheckInput returns an *InputError if those fields of the input that are in fields have more than limit bytes as JSON. A limit of 0 means
// no limit; otherwise fields must not be nil.
func CheckInput(fields *projection.FieldSet, input map[string]any, limit int) error {
	if limit == 0 {
		return nil
	}
	if size := fields.Size(input); size > limit {
		return &InputError{Size: size, Limit: limit}
	}
	return nil
}

// Fault is the reason why a request to a remote engine failed, such as FaultTimeout or FaultCircuitOpen.
type Fault string

// Faults of remote engines. They are the values of a metric's label.
const (
	// FaultCredentials means that a Secret is missing or its content is unusable.
	FaultCredentials Fault = "credentials"
	// FaultTimeout means that no response arrived in time, or that too many other requests kept this one from being sent.
	FaultTimeout Fault = "timeout"
	// FaultNetwork means that there was no connection, that it broke, or that the certificate is not trusted.
	FaultNetwork Fault = "network"
	// FaultUnauthorized means status 401 or 403.
	FaultUnauthorized Fault = "unauthorized"
	// FaultBackPressure means status 429 or 503, with or without Retry-After.
	FaultBackPressure Fault = "back_pressure"
	// FaultServer means another 5xx status.
	FaultServer Fault = "server"
	// FaultRefused means another status that is not a success. Retrying does not help.
	FaultRefused Fault = "refused"
	// FaultMalformed means that the response can't be read: it is not of content type JSON, is not valid JSON, is too
	// large, or is cut off.
	FaultMalformed Fault = "malformed"
	// FaultUndefined means that the response has no result although one is required.
	FaultUndefined Fault = "undefined"
	// FaultIncomplete means that the engine lacks data or modules that Berth pushes to it.
	FaultIncomplete Fault = "incomplete"
	// FaultCircuitOpen means that no request was sent because the circuit breaker is open.
	FaultCircuitOpen Fault = "circuit_open"
	// FaultSerialization means that the object can't be encoded in a request.
	FaultSerialization Fault = "serialization"
)

// RemoteError is the error of a remote engine that returned no usable result.
type RemoteError struct {
	// Endpoint is the address of the engine, as in https://opa.example:8181.
	Endpoint string
	Fault    Fault
	// Status is the HTTP status; 0 if there was none.
	Status int
	// Attempts is the number of attempts, including those for which no request was sent because too many others were under way. It does not
	// include an attempt that the circuit breaker prevented. It is 0 if the error did not come from an attempt.
	Attempts int
	// RetryAfter is how long the engine asks clients to wait; 0 if it does not say.
	RetryAfter time.Duration
	Err        error // the cause
}

func (e *RemoteError) Error() string {
	attempts := ""
	switch {
	case e.Attempts == 1:
		attempts = ", 1 attempt"
	case e.Attempts > 1:
		attempts = fmt.Sprintf(", %d attempts", e.Attempts)
	}
	return fmt.Sprintf("engine %s: %v (%s%s)", e.Endpoint, e.Err, e.Fault, attempts)
}

func (e *RemoteError) Unwrap() error { return e.Err }

// FaultOf returns the fault of the *RemoteError in the chain of an error; empty for none.
func FaultOf(err error) Fault {
	if fault, ok := errors.AsType[*RemoteError](err); ok {
		return fault.Fault
	}
	return ""
}
