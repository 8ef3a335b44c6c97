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
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/berth-dev/berth/internal/engine"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes, after decompression.
	maxAnswer = 1 << 20
	// maxRejection bounds what is read of an answer that is no success, in bytes.
	maxRejection = 64 << 10
	// maxSaid bounds what an error message repeats of an engine's words, in bytes.
	maxSaid = 512
)

// typeJSON is the media type of requests and answers.
const typeJSON = "application/json"

// query is a request to an engine.
type query struct {
	method string
	at     *url.URL
	// contentType is the body's; empty for JSON.
	contentType string
	body        []byte
	// ifAbsent has a document written only if there is none: otherwise the status is 304.
	ifAbsent bool
	// limit bounds the answer, in bytes; 0 for maxAnswer.
	limit int64
}

// rejection is what an engine said with a status that is no success, as OPA says it: it is in the chain of the error of
// such an answer. Code is empty if the engine says it in another way.
type rejection struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Errors  []struct {
		Code     string `json:"code"`
		Message  string `json:"message"`
		Location struct {
			File string `json:"file"`
			Row  int    `json:"row"`
			Col  int    `json:"col"`
		} `json:"location"`
	} `json:"errors"`
	// asked is what was asked for, and advice what to look at.
	asked, advice string
}

// ofObject says that OPA is well, and could not evaluate the policy for this object (topdown.Error).
func (r *rejection) ofObject() bool {
	return len(r.Errors) > 0 && strings.HasPrefix(r.Errors[0].Code, "eval_") && r.Errors[0].Code != "eval_cancel_error"
}

func (r *rejection) Error() string {
	out := strings.TrimSpace(fmt.Sprintf("%s: status %d %s", r.asked, r.Status, http.StatusText(r.Status)))
	var said strings.Builder
	said.WriteString(strings.TrimSpace(r.Code + " " + r.Message))
	for _, e := range r.Errors {
		said.WriteString("; ")
		if e.Location.File != "" {
			fmt.Fprintf(&said, "%s:%d:%d: ", e.Location.File, e.Location.Row, e.Location.Col)
		}
		said.WriteString(e.Message)
	}
	if said.Len() > 0 {
		out += ": " + printable(said.String())
	}
	if r.advice != "" {
		out += " (" + r.advice + ")"
	}
	return out
}

// exchange sends one request, once, and returns the body of an answer with status 2xx, which is JSON if there is any. The
// error is an *engine.RemoteError, with a *rejection in it if there was another status. Both credentials are as the Secrets
// have them now.
func (a *access) exchange(ctx context.Context, q query) ([]byte, error) {
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
	// Not by a client: that would follow redirects, and take the token along.
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, a.broken(ctx, err)
	}
	// In this order: a connection that becomes idle after its owner is gone would stay.
	defer runtime.KeepAlive(c)
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, a.rejected(response, q, token)
	}
	return a.answer(ctx, response, q)
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
	// All that is sent may be sent twice: net/http may take another connection if a kept one turns out to be closed. The
	// header is for net/http only, and is not sent.
	request.Header["Idempotency-Key"] = []string{}
	return request, nil
}

// broken is what an error of a connection means.
func (a *access) broken(ctx context.Context, err error) *engine.RemoteError {
	var timeout net.Error
	switch {
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return a.fault(engine.FaultTimeout, fmt.Errorf("no answer in time: %w", err))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return a.fault(engine.FaultMalformed, fmt.Errorf("the answer was cut off: %w", err))
	case untrusted(err):
		return a.fault(engine.FaultNetwork, fmt.Errorf("no connection, look at the certificates of both sides%s: %w", a.shown(), err))
	}
	return a.fault(engine.FaultNetwork, fmt.Errorf("no connection, or one that broke%s: %w", a.shown(), err))
}

// shown is a hint at the certificate that Berth shows. A server of TLS 1.3 that does not take it closes the connection, and
// its reason is often not read any more.
func (a *access) shown() string {
	if ref := a.spec.ClientCertificateSecretRef; ref != nil {
		return fmt.Sprintf(" (does the engine take the certificate of Secret %s?)", ref.Name)
	}
	return ""
}

// untrusted says that one side does not trust the other's certificate.
func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var op *net.OpError
	return errors.As(err, &verification) || errors.As(err, &op) && op.Op == "remote error"
}

// unreadable is an answer that came whole and is none, which may be the fault of what was asked for.
type unreadable struct{ error }

// Unwrap returns what is wrong with it.
func (u unreadable) Unwrap() error { return u.error }

// answer reads an answer with status 2xx.
func (a *access) answer(ctx context.Context, response *http.Response, q query) ([]byte, error) {
	limit := q.limit
	if limit == 0 {
		limit = maxAnswer
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil && response.Uncompressed && ctx.Err() == nil:
		return nil, a.fault(engine.FaultMalformed, fmt.Errorf("the compressed answer can't be read: %w", err))
	case err != nil:
		return nil, a.broken(ctx, err)
	case int64(len(body)) > limit:
		return nil, a.fault(engine.FaultMalformed, unreadable{fmt.Errorf("the answer has more than %d bytes", limit)})
	case len(body) > 0 && !isJSON(response.Header.Get("Content-Type")):
		return nil, a.fault(engine.FaultMalformed, unreadable{fmt.Errorf("the answer is of type %s, not JSON: is %s an API like OPA's?",
			printable(strconv.Quote(response.Header.Get("Content-Type"))), q.at)})
	}
	return body, nil
}

// isJSON says whether a media type is JSON, or is not said.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == typeJSON || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// rejected is what a status means that is no success.
func (a *access) rejected(response *http.Response, q query, token string) *engine.RemoteError {
	r := &rejection{}
	// Whatever can be read of it is better than nothing.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRejection))
	if json.Unmarshal(body, r) != nil {
		*r = rejection{}
		if media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err == nil && media == "text/plain" {
			r.Message = string(body)
		}
	}
	r.Status, r.asked = response.StatusCode, q.method+" "+printable(q.at.EscapedPath())
	if token != "" {
		r.Message = strings.ReplaceAll(r.Message, token, "[token]")
		for i := range r.Errors {
			r.Errors[i].Message = strings.ReplaceAll(r.Errors[i].Message, token, "[token]")
		}
	}
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

// retryAfter reads a header's seconds or date (RFC 9110, section 10.2.3); 0 if it has neither, or one that is past.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// printable is somebody else's text as it may stand in a message: bounded, and in one line.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxSaid {
		return strings.ToValidUTF8(text[:maxSaid], "") + "..."
	}
	return text
}
