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
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/policy"
)

// refusedRetryInterval is the time after which a type, or the modules of a policy, that an engine refused are tried again. If the policy
// needs other modules, they are tried at once.
const refusedRetryInterval = 30 * time.Second

// status is what policies need in one engine, what is complete there, and the errors that prevent the rest. It is safe
// for concurrent use.
type status struct {
	// changed is called with the policies whose status may have changed, without the lock.
	changed func(policies ...string)

	mu    sync.Mutex
	needs needs
	// complete are the types that the manifest lists as complete: the engine has all of their objects.
	complete map[schema.GroupVersionResource]bool
	// err is the error that prevents all pushes; nil if there is none.
	err error
	// refusals are what the engine refuses: types by opaclient.TypeName, and modules by the name of their policy, which has no slash.
	refusals map[string]refusal
}

// refusal is the reason why an engine refuses something, and the time until which it is not pushed again.
type refusal struct {
	err error // the reason
	// digest is the ModulesDigest of the refused modules; empty for a type.
	digest string
	until  time.Time // before this time, it is not pushed again
}

// needs is what policies need in an engine. It is replaced as a whole.
type needs struct {
	// remote is the configuration to reach the engine: that of the first policy by name, or the last one once no policy needs the engine.
	remote *policy.Remote
	types  map[schema.GroupVersionResource]policy.Resource // all types that some policy needs
	// policies are the needs of each policy, by its name.
	policies map[string]PolicyNeeds
}

// needsOf combines the needs of policies in one engine. Of a policy with several entries, it takes the types of all, and the modules of the
// last one that has some.
func needsOf(all []PolicyNeeds) needs {
	out := needs{types: map[schema.GroupVersionResource]policy.Resource{}, policies: map[string]PolicyNeeds{}}
	for _, w := range all {
		if earlier, ok := out.policies[w.Policy]; ok {
			w.Types = slices.Concat(earlier.Types, w.Types)
			if len(w.Remote.Modules) == 0 {
				remote := *w.Remote
				remote.Modules, remote.ModulesDigest = earlier.Remote.Modules, earlier.Remote.ModulesDigest
				w.Remote = &remote
			}
		}
		out.policies[w.Policy] = w
	}
	for _, name := range out.names() {
		w := out.policies[name]
		if out.remote == nil {
			out.remote = w.Remote
		}
		for _, r := range w.Types {
			out.types[r.GroupVersionResource] = r
		}
	}
	return out
}

// names returns the names of the policies, sorted.
func (n *needs) names() []string { return slices.Sorted(maps.Keys(n.policies)) }

// policiesNeeding returns the policies that need one of the types, sorted.
func (n *needs) policiesNeeding(types map[schema.GroupVersionResource]bool) []string {
	var out []string
	for _, name := range n.names() {
		if slices.ContainsFunc(n.policies[name].Types, func(r policy.Resource) bool { return types[r.GroupVersionResource] }) {
			out = append(out, name)
		}
	}
	return out
}

func (s *status) currentNeeds() needs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needs
}

// setNeeds replaces what policies need. Refusals remain, also those of what no policy needs any more. Without policies, the configuration
// to reach the engine remains the last one.
func (s *status) setNeeds(next needs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next.remote == nil {
		next.remote = s.needs.remote
	}
	s.needs = next
}

// setError records the error that prevents all pushes; nil if there is none. It calls changed if the error is another one than before.
func (s *status) setError(err error) {
	s.mu.Lock()
	differs := (s.err == nil) != (err == nil) || err != nil && s.err.Error() != err.Error()
	s.err = err
	names := s.needs.names()
	s.mu.Unlock()
	if differs {
		s.changed(names...)
	}
}

// setManifest records the types that the manifest lists as complete, and calls changed with all policies.
func (s *status) setManifest(h opaclient.Manifest) {
	complete := map[schema.GroupVersionResource]bool{}
	for name, whole := range h.Types {
		if r, ok := opaclient.ParseType(name); ok && whole {
			complete[r] = true
		}
	}
	s.mu.Lock()
	s.complete = complete
	names := s.needs.names()
	s.mu.Unlock()
	s.changed(names...)
}

// refusal returns the last refusal of a type or of a policy's modules, also when they may be pushed again; the zero value if they were not
// refused.
func (s *status) refusal(name string) refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusals[name]
}

// setRefusal records the error of pushing a type, or the modules of a policy with a digest, if the engine refused them. For any other
// error, and for nil, it records that they are not refused. It does not call changed.
func (s *status) setRefusal(name, digest string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.refusals, name); errors.Is(err, errRefused) {
		s.refusals[name] = refusal{err: err, digest: digest, until: time.Now().Add(refusedRetryInterval)}
	}
}

// has reports whether the policy with a name uses the engine while any policy needs a type there, and whether the engine has all of the
// type's objects.
func (s *status) has(name string, r schema.GroupVersionResource) (needed, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ofPolicy := s.needs.policies[name]
	_, needed = s.needs.types[r]
	return ofPolicy && needed, s.complete[r]
}

// failure returns the error that prevents pushing what a policy needs in the engine; nil if there is none.
func (s *status) failure(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.needs.policies[name]
	switch {
	case !ok:
		return nil
	case s.err != nil:
		return s.err
	case s.refusals[name].err != nil && s.refusals[name].digest == w.Remote.ModulesDigest:
		// Until other modules are pushed, the refusal of earlier ones remains.
		return s.refusals[name].err
	}
	for _, r := range w.Types {
		if err := s.refusals[opaclient.TypeName(r.GroupVersionResource)].err; err != nil {
			return err
		}
	}
	return nil
}
