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

package push

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/berth-dev/berth/internal/engine/opaclient"
)

const (
	// maxTokenAttempts is the maximum number of consecutive attempts to take the fencing token.
	maxTokenAttempts = 5
	// maxListing is the maximum size in bytes of a document or list that is read from an engine. Lists of modules include
	// syntax trees.
	maxListing = 64 << 20
	// typePatch is the media type of a JSON Patch.
	typePatch = "application/json-patch+json"
)

var (
	manifestPlace     = pointer("").below("berth", "holdings")
	fencingTokenPlace = manifestPlace.below("turn")
)

// sender sends a request until the engine answers. An error wraps errRefused if sending the request again would not
// help, and contains an *opaclient.Rejection if the engine sent one.
type sender interface {
	send(ctx context.Context, r opaclient.Request) ([]byte, error)
}

// session is a writer's exclusive access to an engine. It owns the fencing token and the manifest. Every change of documents is a
// transaction of the session, apart from requests that create a missing manifest or missing documents around the others.
type session struct {
	sender
	base *url.URL // the URL below which the engine serves v1/data and v1/policies
	// manifest is the engine's manifest, as this session last wrote it.
	manifest opaclient.Manifest
	// fencingToken is the token in the engine's manifest, as this session last set it.
	fencingToken string
	tokenCount   int // the number of transactions since the takeover; it is part of the next fencing token
	// published is called with each new manifest.
	published func(opaclient.Manifest)
}

// takeFencingToken replaces the fencing token in the engine by the first one of the LoadID load, so that only transactions of this
// session succeed from now on. It returns the previous manifest, or a new one if there was none. The request that replaces the token is
// applied only once: if it could be applied again later, so could all transactions after it.
func (s *session) takeFencingToken(ctx context.Context, load string) (*opaclient.Manifest, error) {
	s.tokenCount = 0
	s.fencingToken = load + ".0"
	foreign := false
	for range maxTokenAttempts {
		h, err := s.readManifest(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case h == nil:
			// Write a new manifest that lists nothing, with a token that no writer has.
			h = &opaclient.Manifest{LoadID: rand.Text(), FencingToken: map[string]bool{rand.Text(): true}}
			_, err = s.send(ctx, opaclient.Request{Method: http.MethodPut, URL: opaclient.ManifestURL(s.base), Body: toJSON(h), IfAbsent: !foreign})
			// The existing document may not be a manifest of Berth.
			if foreign = statusOf(err) == http.StatusNotModified; foreign {
				continue
			}
			if err != nil {
				return nil, err
			}
		case h.FencingToken[s.fencingToken]:
			return h, nil
		}
		c := newChange()
		for token := range h.FencingToken {
			c.remove(fencingTokenPlace.below(token))
		}
		c.set(fencingTokenPlace, toJSON(map[string]bool{s.fencingToken: true}))
		// Another writer may have taken the token in between.
		if err = s.patch(ctx, c); err != nil && statusOf(err) != http.StatusNotFound && statusOf(err) != http.StatusBadRequest {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: another client, such as a second Berth, keeps writing data.berth.holdings, or the server does not keep "+
		"what is written", errRefused)
}

// statusOf returns the HTTP status of an engine's rejection; 0 if the error is not a rejection.
func statusOf(err error) int {
	if said, ok := errors.AsType[*opaclient.Rejection](err); ok {
		return said.Status
	}
	return 0
}

// patch sends a change as one transaction, and returns the error of the request. It adds nothing to the change: begin and commit add what
// replaces the fencing token.
func (s *session) patch(ctx context.Context, c *change) error {
	_, err := s.send(ctx, opaclient.Request{Method: http.MethodPatch, URL: opaclient.APIURL(s.base, "data"),
		ContentType: typePatch, Body: c.body()})
	return err
}

// readManifest returns the engine's manifest; nil if it has none, or another document in its place.
func (s *session) readManifest(ctx context.Context) (*opaclient.Manifest, error) {
	answer, err := s.send(ctx, opaclient.Request{Method: http.MethodGet, URL: opaclient.ManifestURL(s.base)})
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// An error means that the document is not a manifest of Berth.
	h, _ := opaclient.ParseManifest(answer)
	return h, nil
}

// begin begins a transaction, which must be the next one to be committed. Its first operation removes the current fencing token.
func (s *session) begin() *change {
	c := newChange()
	c.remove(fencingTokenPlace.below(s.fencingToken))
	return c
}

// commit sends a transaction. If edit is not nil, the transaction also changes the manifest. It returns errLost if the engine does not have
// the state that the transaction builds on.
func (s *session) commit(ctx context.Context, c *change, edit func(*opaclient.Manifest)) error {
	next := s.manifest.Clone()
	s.tokenCount++
	if edit != nil {
		edit(&next)
	}
	token := fmt.Sprintf("%s.%d", next.LoadID, s.tokenCount)
	next.FencingToken = map[string]bool{token: true}
	if edit != nil {
		c.set(manifestPlace, toJSON(next))
	} else {
		c.set(fencingTokenPlace, toJSON(next.FencingToken))
	}
	err := s.patch(ctx, c)
	if status := statusOf(err); status != 0 {
		// An earlier attempt of the same transaction may have succeeded although its response was lost.
		h, readErr := s.readManifest(ctx)
		switch {
		case readErr != nil:
			return readErr
		case h != nil && h.FencingToken[token]:
			err = nil
		case h == nil || !h.FencingToken[s.fencingToken] || status == http.StatusNotFound:
			return errLost
		}
	}
	if err != nil {
		return err
	}
	s.fencingToken, s.manifest = token, next
	if edit != nil {
		s.published(next)
	}
	return nil
}

// poll checks that the engine's manifest equals the one that this session last wrote, in all fields. It returns errLost if it does not, or
// if there is none, and the error of a request that fails.
func (s *session) poll(ctx context.Context) error {
	h, err := s.readManifest(ctx)
	if err != nil {
		return err
	}
	if h == nil || !bytes.Equal(toJSON(s.manifest), toJSON(h)) {
		return errLost
	}
	return nil
}

// end removes the manifest, which is the last of Berth's documents in the engine. It returns errUnneeded, also if the engine has no
// manifest any more or refuses to remove it.
func (s *session) end(ctx context.Context) error {
	c := s.begin()
	c.remove(manifestPlace)
	if err := s.patch(ctx, c); err != nil && !errors.Is(err, errRefused) {
		return err
	}
	return errUnneeded
}
