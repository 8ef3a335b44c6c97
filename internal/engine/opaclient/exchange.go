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

package opaclient

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
	// MaxResponse is the maximum size of a response in bytes, after decompression.
	MaxResponse = 1 << 20
	// maxRejection is how many bytes are read of a response without a success status.
	maxRejection = 64 << 10
)

// typeJSON is the media type of requests and responses.
const typeJSON = "application/json"

// Request is a request to an engine: method, URL, body and its type, whether to write only if the document is missing, and how large the
// response may be.
type Request struct {
	Method string
	URL    *url.URL
	// ContentType is the media type of Body; empty for JSON.
	ContentType string
	Body        []byte
	// IfAbsent reports whether to write the document only if there is none. If there is one, the engine answers with status 304.
	IfAbsent bool
	// Limit is the maximum size of the response in bytes; 0 for MaxResponse.
	Limit int64
}

// Rejection is a response of an engine with another status than 2xx: the status, the codes of OPA's errors, if it has them, and what the
// message says besides them. It is in the chain of the error of such a response.
type Rejection struct {
	Status int    `json:"-"`    // the HTTP status
	Code   string `json:"code"` // empty if the engine reports errors in another form
	// Errors are the errors that OPA lists below the code, of which only the codes are kept; none for other servers.
	Errors []struct {
		Code string `json:"code"`
	} `json:"errors"`
	// requestLine is the method and the path of the request. shape describes the response without its content. advice says what to check; it
	// may be empty.
	requestLine, shape, advice string
}

// OfObject reports whether OPA works but could not evaluate the policy for the object of the request: whether the code of the first of
// Errors is one of an evaluation (eval_...), and not that it was canceled.
func (r *Rejection) OfObject() bool {
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

func (r *Rejection) Error() string {
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

// maxCodes is the maximum number of codes of OPA's errors that the message of a Rejection contains.
const maxCodes = 5

// shapeOf describes a response without any of its content, such as "an object with 3 members" or "an empty body".
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

// shapeOfDocument describes a decoded JSON document without any of its content: the number of an object's members, or the type of another
// value.
func shapeOfDocument(document any) string {
	if object, ok := document.(map[string]any); ok {
		return fmt.Sprintf("an object with %d members", len(object))
	}
	return placement.TypeName(document)
}

// Send sends a request, and does not retry it, apart from net/http on another connection. It returns the body of a response with status
// 2xx. The error is an *engine.RemoteError, with a *Rejection in its chain if the response has another status. The token and the
// certificates are those that the Secrets contain now.
func (c *Client) Send(ctx context.Context, r Request) ([]byte, error) {
	connections, err := c.connections(ctx)
	if err != nil {
		return nil, err
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	request, err := newRequest(ctx, r)
	if err != nil {
		return nil, c.Fault(engine.FaultSerialization, err)
	}
	request.Header.Set("User-Agent", c.options.UserAgent)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// An http.Client would follow redirects and send the token along.
	response, err := connections.transport.RoundTrip(request)
	if err != nil {
		return nil, c.connectionFault(ctx, err)
	}
	// Deferred calls run in reverse order: the body is closed before the connections may be collected. A connection that
	// becomes idle after that would stay open.
	defer runtime.KeepAlive(connections)
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, c.statusFault(response, r)
	}
	return c.readBody(ctx, response, r)
}

func newRequest(ctx context.Context, r Request) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL.String(), body)
	if err != nil {
		return nil, err
	}
	if r.Body != nil {
		request.Header.Set("Content-Type", typeJSON)
		if r.ContentType != "" {
			request.Header.Set("Content-Type", r.ContentType)
		}
	}
	if r.IfAbsent {
		request.Header.Set("If-None-Match", "*")
	}
	request.Header.Set("Accept", typeJSON)
	// Every request may be sent twice: net/http may use another connection if a kept one turns out to be closed. The
	// header only tells net/http that this is allowed, and is not sent.
	request.Header["Idempotency-Key"] = []string{}
	return request, nil
}

// connectionFault converts an error of a connection to an *engine.RemoteError: FaultTimeout if ctx has ended or time ran out,
// FaultMalformed if the response was cut off, and otherwise FaultNetwork.
func (c *Client) connectionFault(ctx context.Context, err error) *engine.RemoteError {
	var timeout net.Error
	err = withoutResponse(err)
	switch {
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return c.Fault(engine.FaultTimeout, fmt.Errorf("no answer in time: %w", err))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return c.Fault(engine.FaultMalformed, fmt.Errorf("the answer was cut off: %w", err))
	case Untrusted(err):
		return c.Fault(engine.FaultNetwork,
			fmt.Errorf("no connection, because one side does not trust the certificate of the other: look at both%s: %w", c.certificateHint(), err))
	}
	return c.Fault(engine.FaultNetwork, fmt.Errorf("there was no connection, or it broke%s: %w", c.certificateHint(), err))
}

// withoutResponse returns err, an error of a connection, if its message can't quote an unreadable response. Otherwise it returns an error
// with a general message that wraps err.
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
	return messageError{"the server does not speak HTTP as expected, or ended the connection", err}
}

// messageError is an error with another message than the error that it wraps.
type messageError struct {
	text string
	err  error
}

func (r messageError) Error() string { return r.text }

func (r messageError) Unwrap() error { return r.err }

// certificateHint returns a hint, for appending to a message, that names the Secret of the client certificate which Berth sends; "" if it
// sends none. A TLS 1.3 server that rejects it closes the connection, and its reason is often not read any more.
func (c *Client) certificateHint() string {
	if ref := c.spec.ClientCertificateSecretRef; ref != nil {
		return fmt.Sprintf(" (does the engine accept the client certificate in Secret %s?)", ref.Name)
	}
	return ""
}

// Untrusted reports whether an error of a connection means that one side does not trust the other's certificate: a certificate of the
// engine that could not be verified, or a TLS alert that the engine sent.
func Untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var op *net.OpError
	return errors.As(err, &verification) || errors.As(err, &op) && op.Op == "remote error"
}

// UnreadableError is the error of a response with status 2xx that is not valid: too large, or no JSON of the expected form. The policy or
// the object may be the cause, rather than the engine.
type UnreadableError struct{ Err error }

func (u UnreadableError) Error() string { return u.Err.Error() }

// Unwrap returns Err.
func (u UnreadableError) Unwrap() error { return u.Err }

// readBody reads the body of a response with status 2xx to a request. The error is an *engine.RemoteError, with an UnreadableError in its
// chain if the body has more bytes than the request allows, or another type than JSON.
func (c *Client) readBody(ctx context.Context, response *http.Response, r Request) ([]byte, error) {
	limit := r.Limit
	if limit == 0 {
		limit = MaxResponse
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil && response.Uncompressed && ctx.Err() == nil:
		return nil, c.Fault(engine.FaultMalformed, messageError{"the compressed answer can't be read", err})
	case err != nil:
		return nil, c.connectionFault(ctx, err)
	case int64(len(body)) > limit:
		return nil, c.Fault(engine.FaultMalformed, UnreadableError{fmt.Errorf("the answer has more than %d bytes", limit)})
	case len(body) > 0 && !isJSON(response.Header.Get("Content-Type")):
		return nil, c.Fault(engine.FaultMalformed, UnreadableError{fmt.Errorf("the answer is of another type than JSON: is %s an API like OPA's?",
			r.URL)})
	}
	return body, nil
}

// isJSON reports whether the value of a Content-Type header is empty, or names JSON or a type based on it, such as
// application/problem+json.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == typeJSON || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// Query evaluates a document with an input that EncodeInput encoded, and returns the body of the response. v0 reports whether the document
// is one of OPA's v0 data API. If that API has no such document, found is false without an error. In the v1 API, found is true unless there
// is an error; DecodeResult tells whether the document is defined.
func (c *Client) Query(ctx context.Context, document *url.URL, v0 bool, input []byte) (answer []byte, found bool, err error) {
	answer, err = c.Send(ctx, Request{Method: http.MethodPost, URL: document, Body: input})
	var said *Rejection
	if v0 && errors.As(err, &said) && said.Status == http.StatusNotFound && said.Code == codeUndefined {
		return nil, false, nil
	}
	return answer, err == nil, err
}

// codeUndefined is the error code of OPA's v0 data API for a document that does not exist.
const codeUndefined = "undefined_document"

// statusFault converts a response without a success status to an error with a *Rejection. Its fault says which kind of status it is:
// FaultUnauthorized (401, 403), FaultBackPressure (429, 503), FaultServer (others from 500 on), or FaultRefused.
func (c *Client) statusFault(response *http.Response, request Request) *engine.RemoteError {
	said := &Rejection{}
	var body []byte
	// After 101, what looks like the body is the connection itself, and the end of the request's context does not end reading it.
	if response.StatusCode != http.StatusSwitchingProtocols {
		// Even an incomplete body may contain the error's code.
		body, _ = io.ReadAll(io.LimitReader(response.Body, maxRejection))
	}
	if json.Unmarshal(body, said) != nil {
		*said = Rejection{}
	}
	said.Status, said.requestLine, said.shape = response.StatusCode, request.Method+" "+request.URL.EscapedPath(), shapeOf(body)
	out := c.Fault(engine.FaultRefused, said)
	out.Status = said.Status
	switch {
	case said.Status == http.StatusUnauthorized || said.Status == http.StatusForbidden:
		out.Fault = engine.FaultUnauthorized
		said.advice = "look at the credentials in spec.remote.tokenSecretRef and spec.remote.clientCertificateSecretRef, and at what " +
			"the engine permits with them"
	case said.Status == http.StatusTooManyRequests || said.Status == http.StatusServiceUnavailable:
		out.Fault = engine.FaultBackPressure
		out.RetryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
	case said.Status >= 500:
		out.Fault = engine.FaultServer
	case said.Status/100 == 3:
		said.advice = "redirects are not followed: spec.remote.url must be the final address"
	case said.Status == http.StatusNotFound && said.Code == "":
		said.advice = "look at the path of spec.remote.url"
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
