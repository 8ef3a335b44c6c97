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

package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
)

const (
	// maxResponse is the maximum size of a response in bytes, after decompression.
	maxResponse = 1 << 20
	// maxRejection is how many bytes are read of a response without a success status.
	maxRejection = 64 << 10
)

// typeJSON is the media type of requests and responses.
const typeJSON = "application/json"

// query is a request to an engine.
type query struct {
	method string
	at     *url.URL
	// contentType is the body's media type; empty for JSON.
	contentType string
	body        []byte
	// ifAbsent writes a document only if there is none. Otherwise the status is 304.
	ifAbsent bool
	// limit is the maximum size of the response in bytes; 0 for maxResponse.
	limit int64
}

// rejection is a response without a success status, with the fields of OPA's errors. It is in the error chain of such a
// response. Code is empty if the engine reports errors in another form.
type rejection struct {
	Status int    `json:"-"`
	Code   string `json:"code"`
	Errors []struct {
		Code string `json:"code"`
	} `json:"errors"`
	// requestLine names the request, shape describes the response without its content, and advice says what to check.
	requestLine, shape, advice string
}

// ofObject reports whether OPA works but could not evaluate the policy for this object (see topdown.Error).
func (r *rejection) ofObject() bool {
	return len(r.Errors) > 0 && strings.HasPrefix(r.Errors[0].Code, "eval_") && r.Errors[0].Code != "eval_cancel_error"
}

// knownCodes are the codes of OPA's documented errors (server/types, ast, topdown, storage). A message contains these
// codes and nothing else of a response. spec.remote.url may point to any server, and more people may read messages than
// may read what that server returns.
var knownCodes = []string{
	"internal_error", "evaluation_error", "unauthorized", "invalid_parameter", "invalid_operation", "resource_not_found",
	"resource_conflict", "undefined_document",
	"rego_compile_error", "rego_parse_error", "rego_recursion_error", "rego_type_error", "rego_unsafe_var_error",
	"rego_unsafe_builtin_error",
	"eval_builtin_error", "eval_cancel_error", "eval_conflict_error", "eval_internal_error", "eval_type_error",
	"eval_with_merge_error",
	"storage_conflict_error", "storage_internal_error", "storage_invalid_patch_error", "storage_invalid_txn_error",
	"storage_not_found_error", "storage_policy_not_supported_error", "storage_read_conflict_error",
	"storage_triggers_not_supported_error", "storage_write_conflict_error", "storage_writes_not_supported_error",
}

func (r *rejection) Error() string {
	out := strings.TrimSpace(fmt.Sprintf("%s: status %d %s", r.requestLine, r.Status, http.StatusText(r.Status)))
	codes := []string{r.Code}
	for _, e := range r.Errors {
		codes = append(codes, e.Code)
	}
	codes = slices.DeleteFunc(codes, func(code string) bool { return !slices.Contains(knownCodes, code) })
	switch codes = slices.Compact(codes); {
	case len(codes) > 0:
		out += ": " + strings.Join(codes[:min(len(codes), maxCodes)], ", ")
	case r.shape != "":
		out += ": with " + r.shape
	}
	if r.advice != "" {
		out += " (" + r.advice + ")"
	}
	return out
}

// maxCodes is the maximum number of codes in a message.
const maxCodes = 5

// shapeOf describes a response without any of its content.
func shapeOf(body []byte) string {
	if len(body) == 0 {
		return "an empty body"
	}
	document, err := decodeJSON(body)
	if err != nil {
		return fmt.Sprintf("%d bytes that are not JSON", len(body))
	}
	return shapeOfDocument(document)
}

func shapeOfDocument(document any) string {
	if object, ok := document.(map[string]any); ok {
		return fmt.Sprintf("an object with %d members", len(object))
	}
	return placement.TypeName(document)
}

// send sends one request, once, and returns the body of a response with status 2xx. A body that is not empty is
// JSON. The error is an *engine.RemoteError, with a *rejection in its chain for another status. The token and the
// client certificate are those that the Secrets contain now.
func (a *access) send(ctx context.Context, q query) ([]byte, error) {
	c, err := a.connections(ctx)
	if err != nil {
		return nil, err
	}
	token, err := a.token(ctx)
	if err != nil {
		return nil, err
	}
	request, err := newRequest(ctx, q)
	if err != nil {
		return nil, a.fault(engine.FaultSerialization, err)
	}
	request.Header.Set("User-Agent", a.userAgent)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// An http.Client would follow redirects and send the token along.
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, a.connectionFault(ctx, err)
	}
	// Deferred calls run in reverse order: the body is closed before c may be collected. A connection that becomes idle
	// after that would stay open.
	defer runtime.KeepAlive(c)
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, a.statusFault(response, q)
	}
	return a.readBody(ctx, response, q)
}

func newRequest(ctx context.Context, q query) (*http.Request, error) {
	var body io.Reader
	if q.body != nil {
		body = bytes.NewReader(q.body)
	}
	request, err := http.NewRequestWithContext(ctx, q.method, q.at.String(), body)
	if err != nil {
		return nil, err
	}
	if q.body != nil {
		request.Header.Set("Content-Type", typeJSON)
		if q.contentType != "" {
			request.Header.Set("Content-Type", q.contentType)
		}
	}
	if q.ifAbsent {
		request.Header.Set("If-None-Match", "*")
	}
	request.Header.Set("Accept", typeJSON)
	// Every request may be sent twice: net/http may use another connection if a kept one turns out to be closed. The
	// header only tells net/http that this is allowed, and is not sent.
	request.Header["Idempotency-Key"] = []string{}
	return request, nil
}

// connectionFault converts an error of a connection to a fault.
func (a *access) connectionFault(ctx context.Context, err error) *engine.RemoteError {
	var timeout net.Error
	err = withoutResponse(err)
	switch {
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return a.fault(engine.FaultTimeout, fmt.Errorf("no answer in time: %w", err))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return a.fault(engine.FaultMalformed, fmt.Errorf("the answer was cut off: %w", err))
	case untrusted(err):
		return a.fault(engine.FaultNetwork, fmt.Errorf("no connection, look at the certificates of both sides%s: %w", a.certificateHint(), err))
	}
	return a.fault(engine.FaultNetwork, fmt.Errorf("no connection, or one that broke%s: %w", a.certificateHint(), err))
}

// withoutResponse returns a connection's error without the parts of an unreadable response that net/http quotes.
func withoutResponse(err error) error {
	var (
		op     *net.OpError
		verify *tls.CertificateVerificationError
		record tls.RecordHeaderError
		alert  tls.AlertError
		other  net.Error
	)
	switch {
	case errors.As(err, &op), errors.As(err, &verify), errors.As(err, &record), errors.As(err, &alert),
		errors.As(err, &other) && other.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	return messageError{"what answered does not speak HTTP as expected, or ended the connection", err}
}

// messageError replaces the message of an error.
type messageError struct {
	text string
	err  error
}

func (r messageError) Error() string { return r.text }

func (r messageError) Unwrap() error { return r.err }

// certificateHint returns a hint about the client certificate that Berth sends. A TLS 1.3 server that rejects it closes
// the connection, and its reason is often not read any more.
func (a *access) certificateHint() string {
	if ref := a.spec.ClientCertificateSecretRef; ref != nil {
		return fmt.Sprintf(" (does the engine take the certificate of Secret %s?)", ref.Name)
	}
	return ""
}

// untrusted reports whether one side does not trust the other's certificate.
func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var op *net.OpError
	return errors.As(err, &verification) || errors.As(err, &op) && op.Op == "remote error"
}

// unreadable is the error of a response that arrived completely but is not valid. The policy or the object may be the
// cause, rather than the engine.
type unreadable struct{ error }

// Unwrap returns the underlying error.
func (u unreadable) Unwrap() error { return u.error }

// readBody reads a response with status 2xx.
func (a *access) readBody(ctx context.Context, response *http.Response, q query) ([]byte, error) {
	limit := q.limit
	if limit == 0 {
		limit = maxResponse
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil && response.Uncompressed && ctx.Err() == nil:
		return nil, a.fault(engine.FaultMalformed, messageError{"the compressed answer can't be read", err})
	case err != nil:
		return nil, a.connectionFault(ctx, err)
	case int64(len(body)) > limit:
		return nil, a.fault(engine.FaultMalformed, unreadable{fmt.Errorf("the answer has more than %d bytes", limit)})
	case len(body) > 0 && !isJSON(response.Header.Get("Content-Type")):
		return nil, a.fault(engine.FaultMalformed, unreadable{fmt.Errorf("the answer is of another type than JSON: is %s an API like OPA's?", q.at)})
	}
	return body, nil
}

// isJSON reports whether a media type is JSON or empty.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == typeJSON || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// statusFault converts a response without a success status to a fault.
func (a *access) statusFault(response *http.Response, q query) *engine.RemoteError {
	r := &rejection{}
	// Even an incomplete body may contain the error's code.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRejection))
	if json.Unmarshal(body, r) != nil {
		*r = rejection{}
	}
	r.Status, r.requestLine, r.shape = response.StatusCode, q.method+" "+q.at.EscapedPath(), shapeOf(body)
	out := a.fault(engine.FaultRefused, r)
	out.Status = r.Status
	switch {
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		out.Fault = engine.FaultUnauthorized
		r.advice = "look at spec.remote.tokenSecretRef and clientCertificateSecretRef, and at what the engine allows them"
	case r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable:
		out.Fault = engine.FaultBackPressure
		out.RetryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
	case r.Status >= 500:
		out.Fault = engine.FaultServer
	case r.Status/100 == 3:
		r.advice = "redirects are not followed: spec.remote.url must be the final address"
	case r.Status == http.StatusNotFound && r.Code == "":
		r.advice = "look at the path of spec.remote.url"
	}
	return out
}

// retryAfter parses the value of a Retry-After header in seconds or as a date (RFC 9110, section 10.2.3). It returns 0
// for any other value, and for a date in the past.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
