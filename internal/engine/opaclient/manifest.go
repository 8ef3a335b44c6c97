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
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy"
)

// Manifest is the document in a remote engine that lists what Berth pushed to the engine. Its path is data.berth.holdings. If the engine
// loses its data, it loses the manifest too. A type is true in it, and modules are listed, only while they are there completely.
type Manifest struct {
	// LoadID is a random text. A new one is set at each full load, and whenever something that was listed is removed or
	// becomes incomplete. So while LoadID is unchanged, nothing that the manifest lists has been missing.
	LoadID string `json:"load"`
	// Types are the pushed resource types by TypeName: true if the engine has all objects of the type, false if it may have only a part of
	// them. A type that is missing was not pushed.
	Types map[string]bool `json:"types,omitempty"`
	// Modules has, by the name of the policy, which modules of the policy the engine has.
	Modules map[string]ManifestModules `json:"modules,omitempty"`
	// FencingToken holds the fencing token as its only key. Each change removes this token and sets a new one, so a change
	// fails unless it follows the one before. Hence each change is applied only once, and a change that was delayed, or
	// that comes from another leader, fails.
	FencingToken map[string]bool `json:"turn,omitempty"`
}

// ManifestModules identifies the modules of one policy that an engine has, by a digest, and earlier modules that they replaced, by theirs.
type ManifestModules struct {
	// Digest is the Remote.ModulesDigest of the modules that the engine has.
	Digest string `json:"digest"`
	// Superseded are the digests of a few earlier modules of the policy, which the present ones replaced, the newest first. A replica that
	// still needs earlier modules can see from it that newer ones replaced them.
	Superseded []string `json:"superseded,omitempty"`
}

// Clone returns a copy without the fencing token. Its maps can be changed, but it shares the lists in Modules. It panics if h is nil.
func (h *Manifest) Clone() Manifest {
	return Manifest{LoadID: h.LoadID, Types: maps.Clone(h.Types), Modules: maps.Clone(h.Modules)}
}

// RenewLoadID sets a new LoadID. Call it when something that the manifest listed is not there any more.
func (h *Manifest) RenewLoadID() { h.LoadID = rand.Text() }

// TypeName returns the name of a resource type in the manifest, such as apps/v1/deployments or /v1/pods.
func TypeName(r schema.GroupVersionResource) string {
	return r.Group + "/" + r.Version + "/" + r.Resource
}

// ParseType returns the resource type with a name that TypeName returned. The result is false for texts that do not have this form.
func ParseType(name string) (schema.GroupVersionResource, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return schema.GroupVersionResource{}, false
	}
	return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}, true
}

// Missing compares the manifest, which may be nil, with what a policy needs in the engine: the objects of its pushed types, and its
// modules. missing says for users what is not there, or not served by the API server, as a text that follows "it"; it is empty if
// everything is there. superseded reports that nothing is missing, and that the modules are newer than those that the policy had when it
// was bound. Such modules don't count as missing.
func (h *Manifest) Missing(b *policy.Binding) (missing string, superseded bool) {
	if h == nil {
		h = &Manifest{}
	}
	var missingParts []string
	for _, read := range b.Missing {
		missingParts = append(missingParts, fmt.Sprintf("%s, which the API server does not serve", read))
	}
	for _, resource := range b.PushedTypes {
		if !h.Types[TypeName(resource.GroupVersionResource)] {
			missingParts = append(missingParts, resource.GroupResource().String())
		}
	}
	digest, pushed := b.Remote.ModulesDigest, h.Modules[b.Remote.Policy]
	if digest != "" && pushed.Digest != digest {
		if superseded = slices.Contains(pushed.Superseded, digest); !superseded {
			missingParts = append(missingParts, "the policy's modules")
		}
	}
	if len(missingParts) == 0 {
		return "", superseded
	}
	return "does not have everything yet that Berth pushes for the policy: " + strings.Join(missingParts, ", "), false
}

// ParseManifest decodes the body of the response to a request for the manifest; nil, without an error, if the engine has no manifest. It is
// an error if the body is not JSON, or the document has another form.
func ParseManifest(answer []byte) (*Manifest, error) {
	var out struct {
		Result *Manifest `json:"result"`
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, messageError{"the engine's document data.berth.holdings is not a manifest of Berth: the leader replaces the document; if " +
			"that does not help, find out which client or bundle writes it", err}
	}
	return out.Result, nil
}

// ManifestURL returns the URL of the manifest of the engine at a base URL (Remote.Base).
func ManifestURL(base *url.URL) *url.URL { return APIURL(base, "data", "berth", "holdings") }

// APIURL returns the URL of a path below the v1 API of the engine at a base URL. The elements of the path may contain any
// character.
func APIURL(base *url.URL, path ...string) *url.URL {
	path = append([]string{"v1"}, path...)
	escaped := make([]string, len(path))
	for i, name := range path {
		escaped[i] = url.PathEscape(name)
	}
	out := *base
	out.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + "/" + strings.Join(escaped, "/")
	out.Path = strings.TrimSuffix(base.Path, "/") + "/" + strings.Join(path, "/")
	return &out
}
