package remote

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy"
)

// holdings is what an engine has of what Berth keeps there, as a document of the engine's own at
// data.berth.holdings: what is lost with it was not there either. It claims a type or modules only while they are there,
// complete.
type holdings struct {
	// Load is a new random text whenever anything that was claimed no longer is, and at each full load: while it stands,
	// nothing was missing of what is claimed.
	Load string `json:"load"`
	// Types are the resource types as typeName has them; one that is false may be there in part.
	Types map[string]bool `json:"types,omitempty"`
	// Modules are the modules by policy.
	Modules map[string]heldModules `json:"modules,omitempty"`
	// Turn has one name, which the next change takes the place of with another one. So each change is made once, after the
	// one before, and only by who made that: one that was long under way, or another leader's, fails.
	Turn map[string]bool `json:"turn,omitempty"`
}

// heldModules are the modules of a policy.
type heldModules struct {
	// Digest is the ModulesDigest of those that are there.
	Digest string `json:"digest"`
	// Superseded are digests of older ones, the newest first.
	Superseded []string `json:"superseded,omitempty"`
}

// typeName is how holdings name a resource type.
func typeName(r schema.GroupVersionResource) string {
	return r.Group + "/" + r.Version + "/" + r.Resource
}

// parseType reads what typeName wrote.
func parseType(name string) (schema.GroupVersionResource, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return schema.GroupVersionResource{}, false
	}
	return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}, true
}

// has says what is not there of what a policy needs, in words for users; empty if all is there. superseded says that the
// modules are newer than those that the policy had when it was bound, which is no lack.
func (h *holdings) has(name string, r *policy.Remote, b *policy.Binding) (missing string, superseded bool) {
	var lacks []string
	for _, read := range b.Missing {
		lacks = append(lacks, fmt.Sprintf("%s, which the API server does not serve", schema.GroupResource{Group: read.GroupVersion, Resource: read.Plural}))
	}
	for _, resource := range b.Supplies {
		if h == nil || !h.Types[typeName(resource.GroupVersionResource)] {
			lacks = append(lacks, resource.GroupResource().String())
		}
	}
	if r.ModulesDigest != "" {
		var held heldModules
		if h != nil {
			held = h.Modules[name]
		}
		if held.Digest != r.ModulesDigest {
			if superseded = slices.Contains(held.Superseded, r.ModulesDigest); !superseded {
				lacks = append(lacks, "the policy's modules")
			}
		}
	}
	if len(lacks) == 0 {
		return "", superseded
	}
	return "does not have yet " + strings.Join(lacks, ", "), false
}

// parseHoldings reads the engine's answer; nil if it has no such document.
func parseHoldings(answer []byte) (*holdings, error) {
	var out struct {
		Result *holdings `json:"result"`
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, reason{"data.berth.holdings is not a document of Berth's", err}
	}
	return out.Result, nil
}

// holdingsAddress is where an engine's holdings are.
func holdingsAddress(base *url.URL) *url.URL { return address(base, "v1", "data", "berth", "holdings") }

// address is that of a path below the engine's base, name by name, which may have any character.
func address(base *url.URL, path ...string) *url.URL {
	escaped := make([]string, len(path))
	for i, name := range path {
		escaped[i] = url.PathEscape(name)
	}
	out := *base
	out.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + "/" + strings.Join(escaped, "/")
	out.Path = strings.TrimSuffix(base.Path, "/") + "/" + strings.Join(path, "/")
	return &out
}
