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

package faultproxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is what the proxy does to a request, in place of handing it on or to what is answered. The zero value does
// nothing.
type Fault struct {
	// Name is for logs and counts, as in "500".
	Name string
	// act answers a request. It may end the connection.
	act func(*exchange)
	// wait is how long the request waits before act.
	wait, jitter time.Duration
	// accept says that the connection itself is refused, where there is none yet.
	accept bool
	// heals says that the answer is the target's own in the end.
	heals bool
}

// Heals says that the target's own answer comes through, if late.
func (f Fault) Heals() bool { return f.heals || f.act == nil && !f.accept }

// After is the fault with a delay before it: a fixed one, and up to jitter more.
func (f Fault) After(delay, jitter time.Duration) Fault {
	f.wait, f.jitter = delay, jitter
	if f.Name != "" {
		f.Name += ", late"
	}
	return f
}

// Latency hands requests on late: after a fixed delay, and up to jitter more.
func Latency(delay, jitter time.Duration) Fault {
	return Fault{Name: "latency", wait: delay, jitter: jitter}
}

// Hang reads requests and says nothing until the client gives up.
func Hang() Fault {
	return Fault{Name: "hang", act: func(e *exchange) { e.wait(time.Hour) }}
}

// Refuse resets connections that are made, and those on which a request comes.
func Refuse() Fault {
	return Fault{Name: "refuse", accept: true, act: func(e *exchange) { e.reset() }}
}

// CutBefore hands requests on, and resets the connection instead of an answer.
func CutBefore() Fault {
	return Fault{Name: "cut before the answer", act: func(e *exchange) {
		e.ask()
		e.reset()
	}}
}

// CutInHeader hands requests on, and resets the connection in the middle of the answer's header.
func CutInHeader() Fault {
	return Fault{Name: "cut in the header", act: func(e *exchange) {
		e.ask()
		e.raw("HTTP/1.1 200 OK\r\nContent-Ty")
		e.reset()
	}}
}

// CutInBody hands requests on, and resets the connection in the middle of the answer's body.
func CutInBody() Fault {
	return Fault{Name: "cut in the body", act: func(e *exchange) {
		e.half()
		e.reset()
	}}
}

// Truncate hands requests on, and answers with half a body whose length was announced in full.
func Truncate() Fault {
	return Fault{Name: "truncated", act: func(e *exchange) { e.half() }}
}

// TruncateChunked is Truncate with an answer in chunks the last of which is missing.
func TruncateChunked() Fault {
	return Fault{Name: "truncated chunks", act: func(e *exchange) {
		a := e.ask()
		e.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(a.body)/2,
			a.body[:len(a.body)/2])
	}}
}

// Oversize answers with a valid JSON document of at least so many bytes, of a length that is not announced.
func Oversize(bytes int64) Fault {
	return Fault{Name: "oversized", act: func(e *exchange) {
		e.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
		e.long(e, bytes)
	}}
}

// OversizeAnnounced is Oversize with the length announced.
func OversizeAnnounced(bytes int64) Fault {
	return Fault{Name: "oversized, announced", act: func(e *exchange) {
		e.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", bytes+int64(len(longHead)+len(longTail)))
		e.long(e, bytes)
	}}
}

// OversizeCompressed is Oversize in little that becomes much, to a client that understands gzip.
func OversizeCompressed(bytes int64) Fault {
	return Fault{Name: "oversized, compressed", act: func(e *exchange) {
		if !strings.Contains(e.request.Header.Get("Accept-Encoding"), "gzip") {
			e.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
			e.long(e, bytes)
			return
		}
		e.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
		w := gzip.NewWriter(e)
		e.long(w, bytes)
		// What can't be written has no reader any more.
		_ = w.Close()
	}}
}

// HTML answers 200 with a page, as a portal or another server behind the same name does.
func HTML() Fault {
	return answer("html", http.StatusOK, "text/html; charset=utf-8", "<!doctype html><title>Welcome</title><p>It works!")
}

// WrongType hands requests on, and says of the answer that it is text.
func WrongType() Fault {
	return Fault{Name: "wrong content type", act: func(e *exchange) {
		a := e.ask()
		e.respond(a.status, http.Header{"Content-Type": {"text/html"}}, a.body)
	}}
}

// InvalidJSON answers 200 with what only looks like JSON.
func InvalidJSON() Fault {
	return answer("invalid json", http.StatusOK, "application/json", `{"result": {"annotations": {"a": }}}`)
}

// TrailingJSON answers 200 with two documents.
func TrailingJSON() Fault {
	return answer("trailing json", http.StatusOK, "application/json", `{"result": {}} {"result": {}}`)
}

// Empty answers 200 with nothing.
func Empty() Fault { return answer("empty", http.StatusOK, "application/json", "") }

// NotAnObject answers 200 with a document that is no object.
func NotAnObject() Fault { return answer("not an object", http.StatusOK, "application/json", `[1]`) }

// Contract answers 200 with a result that the decision contract does not allow.
func Contract() Fault {
	return answer("against the contract", http.StatusOK, "application/json", `{"result": {"labels": {"a": 1}}}`)
}

// Redirect answers that the document is elsewhere.
func Redirect(to string) Fault {
	return Fault{Name: "redirect", act: func(e *exchange) {
		e.respond(http.StatusTemporaryRedirect, http.Header{"Location": {to}}, nil)
	}}
}

// Status answers with a status, as in 401, and the error document that OPA has for it.
func Status(code int) Fault {
	return answer(strconv.Itoa(code), code, "application/json", fmt.Sprintf(`{"code": "fault", "message": %q}`, http.StatusText(code)))
}

// RetryIn is Status with Retry-After in seconds.
func RetryIn(code int, seconds int) Fault {
	return Fault{Name: strconv.Itoa(code) + ", Retry-After in seconds", act: func(e *exchange) {
		e.respond(code, http.Header{"Retry-After": {strconv.Itoa(seconds)}}, nil)
	}}
}

// RetryAt is Status with Retry-After as a date that is so far away. Dates have seconds.
func RetryAt(code int, away time.Duration) Fault {
	return Fault{Name: strconv.Itoa(code) + ", Retry-After as a date", act: func(e *exchange) {
		e.respond(code, http.Header{"Retry-After": {time.Now().Add(away).UTC().Format(http.TimeFormat)}}, nil)
	}}
}

// EndlessHeader answers with a header that has no end.
func EndlessHeader() Fault {
	return Fault{Name: "endless header", act: func(e *exchange) {
		e.raw("HTTP/1.1 200 OK\r\n")
		line := []byte("X-Endless: " + strings.Repeat("a", 4<<10) + "\r\n")
		for e.write(line) {
		}
	}}
}

// EndlessInterim answers with interim responses (RFC 9110, 15.2) and never with a final one.
func EndlessInterim() Fault {
	return Fault{Name: "endless interim responses", act: func(e *exchange) {
		for e.write([]byte("HTTP/1.1 103 Early Hints\r\n\r\n")) && e.wait(time.Millisecond) {
		}
	}}
}

// Drip hands requests on, and gives the answer's body one byte at a time.
func Drip(interval time.Duration) Fault {
	return Fault{Name: "drip", heals: true, act: func(e *exchange) {
		a := e.ask()
		e.raw("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", a.status,
			http.StatusText(a.status), len(a.body))
		for i := range a.body {
			if !e.wait(interval) || !e.write(a.body[i:i+1]) {
				return
			}
		}
	}}
}

// Garbage answers what is no HTTP.
func Garbage() Fault {
	return Fault{Name: "garbage", act: func(e *exchange) { e.raw("SSH-2.0-OpenSSH_9.9\r\n") }}
}

func answer(name string, status int, contentType, body string) Fault {
	return Fault{Name: name, act: func(e *exchange) {
		e.respond(status, http.Header{"Content-Type": {contentType}}, []byte(body))
	}}
}

// All returns one of every fault, none of which ends by itself with the target's answer before a client has lost its
// patience of a few seconds, but for those that Heals says it of. Oversized answers have so many bytes.
func All(oversize int64) []Fault {
	return []Fault{
		Latency(50*time.Millisecond, 100*time.Millisecond), Hang(), Refuse(), CutBefore(), CutInHeader(), CutInBody(),
		Truncate(), TruncateChunked(),
		Oversize(oversize), OversizeAnnounced(oversize), OversizeCompressed(oversize), HTML(), WrongType(), InvalidJSON(),
		TrailingJSON(), Empty(),
		NotAnObject(), Contract(), Redirect("/elsewhere"), Status(http.StatusUnauthorized), Status(http.StatusForbidden),
		Status(http.StatusInternalServerError), Status(http.StatusBadGateway), Status(http.StatusTooManyRequests),
		Status(http.StatusServiceUnavailable),
		RetryIn(http.StatusTooManyRequests, 1), RetryIn(http.StatusServiceUnavailable, 3600),
		RetryAt(http.StatusServiceUnavailable, 2*time.Second),
		EndlessHeader(), EndlessInterim(), Drip(time.Millisecond), Garbage(),
	}
}

// Mixed returns a choice for Proxy.Choose: of the requests (and connections) a share, from 0 to 1, meets one of the
// faults at random, by the seed, and the rest none.
func Mixed(seed uint64, share float64, faults ...Fault) func(*http.Request) Fault {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func(*http.Request) Fault {
		mu.Lock()
		defer mu.Unlock()
		if random.Float64() >= share {
			return Fault{}
		}
		return faults[random.IntN(len(faults))]
	}
}

// What is around the value of a long answer.
const longHead, longTail = `{"result": {"annotations": {"a": "`, `"}}}`

// long writes a valid response with a value of size bytes, until the client stops reading.
func (e *exchange) long(w io.Writer, size int64) {
	if _, err := io.WriteString(w, longHead); err != nil {
		return
	}
	chunk := bytes.Repeat([]byte("a"), 64<<10)
	for size > 0 {
		chunk = chunk[:min(int64(len(chunk)), size)]
		if _, err := w.Write(chunk); err != nil {
			return
		}
		size -= int64(len(chunk))
	}
	// As above, an error means that the client stopped reading.
	_, _ = io.WriteString(w, longTail)
}
