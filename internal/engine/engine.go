// Package engine is the contract between Berth and what evaluates policies: policies and data go in, evaluators come
// out. Which engine stands behind it is decided where the parts are wired.
package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
)

// Engine makes compiled policies decidable. Implementations are safe for concurrent use.
type Engine interface {
	// Name is what a policy's status shows.
	Name() string
	// Check says whether the engine has what a policy asks for by name. The error is a *policy.CompileError.
	Check(m *policy.Module) error
	// Prepare returns an evaluator for one policy. It holds no resources of the engine: who no longer wants it drops it.
	Prepare(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error)
	// PrepareGenerated returns the rules of a module that Berth itself generated. Such a module ends by construction
	// and reads no data: it waits for no other evaluation, so that no policy can hold it up.
	PrepareGenerated(ctx context.Context, name string, m *policy.Module) (policy.Rules, error)
}

// Data receives the replicated world, as prepared objects (replication.Prepare) of which it keeps some fields. Methods
// are safe for concurrent use; changes of one resource type must come from one goroutine at a time, in their order.
// Objects are not changed, nor kept, after the call. Each method says whether what is kept changed.
type Data interface {
	// Load makes the objects the complete content of a resource type, which is complete from then on. Of these and of
	// all that follow just the fields are kept, a sealed set, which the objects have; nil stands for all fields.
	Load(resource schema.GroupVersionResource, fields *projection.Fields, objects []*unstructured.Unstructured) bool
	// Put adds or replaces one object of a resource type that is complete.
	Put(resource schema.GroupVersionResource, object *unstructured.Unstructured) bool
	// Delete removes one object.
	Delete(resource schema.GroupVersionResource, namespace, name string) bool
	// Drop forgets a resource type; who reads it gets a NotReplicatedError from then on.
	Drop(resource schema.GroupVersionResource) bool
	// Size returns the number of objects of a resource type and about how many bytes of memory they take; ok is false
	// while it is not complete.
	Size(resource schema.GroupVersionResource) (objects int, bytes int64, ok bool)
}

// ErrDeadline says that an evaluation was cut off at its deadline.
var ErrDeadline = errors.New("evaluation ran into its deadline")

// NotReplicatedError says that a policy was asked before data that it reads was complete.
type NotReplicatedError struct {
	// Data names what is missing, as the policy's text or the API server does.
	Data string
}

func (e *NotReplicatedError) Error() string {
	return fmt.Sprintf("%s is not replicated yet", e.Data)
}

// StaleError says that the API server has told nothing of a resource type for too long.
type StaleError struct {
	Resource schema.GroupVersionResource
	// Confirmed is when it last did.
	Confirmed time.Time
	// Max is the policy's bound.
	Max time.Duration
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("the API server has not confirmed its copy of %s since %s, which is longer than spec.maxStaleness, %s; check the connection to the API server and whether it serves the type",
		e.Resource.GroupResource(), e.Confirmed.UTC().Format(time.RFC3339), e.Max)
}

// LimitError says that a policy passed more to a builtin function than is evaluated, or decided more than is read.
type LimitError struct {
	// Function is the builtin function; empty if it is about the policy's own result.
	Function string
	// Operand says which of its operands it is, or what else is too large.
	Operand string
	// Size is how large that is, in units, as far as it was measured: it may be larger.
	Size int
	// Limit is the largest size that is evaluated.
	Limit int
	// Unit is what is counted, in the plural.
	Unit string
}

func (e *LimitError) Error() string {
	what := e.Operand
	if e.Function != "" {
		what = e.Function + ": " + what
	}
	return fmt.Sprintf("%s has %d %s or more, at most %d are evaluated", what, e.Size, e.Unit, e.Limit)
}

// InputError says that an object is larger than the policy evaluates.
type InputError struct {
	// Size is the size of what the policy reads of the object, in bytes of JSON, and Limit that of spec.limits.inputBytes.
	Size, Limit int
}

func (e *InputError) Error() string {
	return fmt.Sprintf("what the policy reads of the object has %d bytes as JSON, at most %d are evaluated (spec.limits.inputBytes of the policy): "+
		"make the object smaller, or have the policy's limit raised", e.Size, e.Limit)
}

// CheckInput returns an *InputError if the input, cut to the fields, is larger than the limit in bytes; 0 is no limit.
func CheckInput(fields *projection.Fields, input map[string]any, limit int) error {
	if limit == 0 {
		return nil
	}
	if size := fields.Size(input); size > limit {
		return &InputError{Size: size, Limit: limit}
	}
	return nil
}

// QuarantinedError says that a policy is not evaluated for a while, since it kept running into its deadline.
type QuarantinedError struct {
	// Namespace is that whose objects are not evaluated; empty for all.
	Namespace string
	// After is how many evaluations in a row did.
	After int
	// Since is when that was, and Until from when on the policy is tried again.
	Since, Until time.Time
}

func (e *QuarantinedError) Error() string {
	if e.Namespace != "" {
		return fmt.Sprintf("%d evaluations in a row of objects in namespace %s ran into their deadline: the policy is in quarantine for that namespace since %s, and is tried again there from %s on",
			e.After, e.Namespace, e.Since.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%d evaluations in a row ran into their deadline: the policy is in quarantine since %s, and is tried again from %s on",
		e.After, e.Since.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339))
}

// Fault is a kind of failure of an engine that is asked over the network.
type Fault string

// Faults of remote engines. They are the values of a metric's label.
const (
	// FaultCredentials: a Secret is missing, or there is no use for what it has.
	FaultCredentials Fault = "credentials"
	// FaultTimeout: there was no answer in time.
	FaultTimeout Fault = "timeout"
	// FaultNetwork: no connection, one that broke, or a certificate that is not trusted.
	FaultNetwork Fault = "network"
	// FaultUnauthorized: 401 or 403.
	FaultUnauthorized Fault = "unauthorized"
	// FaultBackPressure: 429 or 503, with or without Retry-After.
	FaultBackPressure Fault = "back_pressure"
	// FaultServer: another 5xx.
	FaultServer Fault = "server"
	// FaultRefused: another status that is no success; to ask again would be in vain.
	FaultRefused Fault = "refused"
	// FaultMalformed: an answer that can't be read: another content type than JSON, no JSON, too large, or cut off.
	FaultMalformed Fault = "malformed"
	// FaultUndefined: no result where one is required.
	FaultUndefined Fault = "undefined"
	// FaultIncomplete: the engine does not have the data or the modules that Berth keeps there.
	FaultIncomplete Fault = "incomplete"
	// FaultCircuitOpen: the engine was not asked, as it kept failing.
	FaultCircuitOpen Fault = "circuit_open"
	// FaultSerialization: the object can't be put into a request.
	FaultSerialization Fault = "serialization"
)

// RemoteError says that a remote engine gave no answer.
type RemoteError struct {
	// Endpoint is who was asked, as in https://opa.example:8181.
	Endpoint string
	Fault    Fault
	// Status is the HTTP status; 0 if there was none.
	Status int
	// Attempts is how often it was asked.
	Attempts int
	// RetryAfter is how long the engine wants to be left alone; 0 if it does not say.
	RetryAfter time.Duration
	Err        error
}

func (e *RemoteError) Error() string {
	switch e.Attempts {
	case 0:
		return fmt.Sprintf("engine %s: %v (%s)", e.Endpoint, e.Err, e.Fault)
	case 1:
		return fmt.Sprintf("engine %s: %v (%s, 1 attempt)", e.Endpoint, e.Err, e.Fault)
	}
	return fmt.Sprintf("engine %s: %v (%s, %d attempts)", e.Endpoint, e.Err, e.Fault, e.Attempts)
}

func (e *RemoteError) Unwrap() error { return e.Err }
