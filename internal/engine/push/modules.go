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
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/policy"
)

// modules pushes to one engine the Rego modules that policies need there, and keeps them up to date. It knows their texts in the engine.
// The writer's goroutine owns it.
type modules struct {
	session *session
	status  *status
	// contentChanged is called with the policies whose modules in the engine changed.
	contentChanged func(policies ...string)

	// texts are the texts of the modules that Berth has in the engine, by ID. A text that differs from what a policy needs is put again, and a
	// module that no policy needs is deleted.
	texts map[string]string
	// older has, by the name of the policy, the last entry for its modules that the manifest lists no more. The next entry lists the digests
	// in it as superseded.
	older map[string]opaclient.ManifestModules
	// kept has, by ID, the modules that the engine refused to delete.
	kept map[string]refusedDeletion
	// next is the index, among the sorted IDs of texts, of the module that poll checked last. The first one follows the last one.
	next int
}

// refusedDeletion says why the engine did not delete a module, and until when Berth does not try it again.
type refusedDeletion struct {
	err   error
	until time.Time
}

// keepListed adds to the manifest next the entries of those policies in the previous manifest whose present modules the engine has. It adds
// none if reliable is false: the engine may have lost something.
func (m *modules) keepListed(old, next *opaclient.Manifest, reliable bool) {
	w := m.status.currentNeeds()
	for name, entry := range old.Modules {
		if reliable && w.policies[name].Remote != nil && m.contain(w.policies[name].Remote.Modules) {
			next.Modules[name] = entry
		} else {
			m.older[name] = entry
		}
	}
}

// contain reports whether the engine has all of these modules with these texts.
func (m *modules) contain(wanted []policy.RemoteModule) bool {
	return !slices.ContainsFunc(wanted, func(w policy.RemoteModule) bool { return m.texts[w.ID] != w.Text })
}

// maxSuperseded is the maximum number of digests of older modules that the manifest lists for a policy, in ManifestModules.Superseded. The
// newest ones are kept.
const maxSuperseded = 3

// manifestEntry returns the entry of a policy in the manifest for modules with a digest. As superseded, it has the digests in the policy's
// last entry that the manifest lists no more, the newest first: at most maxSuperseded, and not the digest itself.
func (m *modules) manifestEntry(name, digest string) opaclient.ManifestModules {
	before := m.older[name]
	out := opaclient.ManifestModules{Digest: digest}
	for _, older := range append([]string{before.Digest}, before.Superseded...) {
		if older != "" && older != digest && len(out.Superseded) < maxSuperseded {
			out.Superseded = append(out.Superseded, older)
		}
	}
	return out
}

// list reads the modules that Berth has in the engine into texts. If the engine refuses the request, as one without an API for modules
// does, texts is empty, and it is an error only if a policy needs modules.
func (m *modules) list(ctx context.Context) error {
	m.texts = map[string]string{}
	answer, err := m.session.send(ctx, opaclient.Request{Method: http.MethodGet, URL: opaclient.APIURL(m.session.base, "policies"),
		Limit: maxListing})
	if err != nil {
		if errors.Is(err, errRefused) && !m.needsModules() {
			// An engine without module support works for policies without modules.
			return nil
		}
		return err
	}
	var list struct {
		Result moduleTexts `json:"result"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return fmt.Errorf("%w: the engine's list of modules (GET v1/policies) can't be read, so nothing is pushed: %w", errRefused, err)
	}
	if list.Result != nil {
		m.texts = list.Result
	}
	return nil
}

// moduleTexts are the texts of Berth's modules by ID. They are decoded from a list of all modules without taking memory for others: an
// engine can list millions in few bytes.
type moduleTexts map[string]string

// maxModules is the maximum number of Berth's modules in a list.
const maxModules = 100_000

// UnmarshalJSON reads Berth's modules, those whose IDs begin with policy.ModulePrefix, from an engine's list of modules. It returns an
// error if there are more than maxModules of them.
func (m *moduleTexts) UnmarshalJSON(list []byte) error {
	*m = moduleTexts{}
	decoder := json.NewDecoder(bytes.NewReader(list))
	if token, _ := decoder.Token(); token != json.Delim('[') && token != nil {
		return errors.New("the list is not an array: does spec.remote.url lead to an API like OPA's?")
	}
	type module struct {
		ID  string `json:"id"`
		Raw string `json:"raw"`
	}
	var one module
	for decoder.More() {
		one = module{}
		if err := decoder.Decode(&one); err != nil {
			return err
		}
		if strings.HasPrefix(one.ID, policy.ModulePrefix) {
			(*m)[one.ID] = one.Raw
		}
		if len(*m) > maxModules {
			return fmt.Errorf("the list has more than %d modules whose IDs begin with placement.berth.dev/: delete those that no policy has",
				maxModules)
		}
	}
	return nil
}

// needsModules reports whether a policy needs modules in the engine.
func (m *modules) needsModules() bool {
	for _, p := range m.status.currentNeeds().policies {
		if len(p.Remote.Modules) > 0 {
			return true
		}
	}
	return false
}

// push brings the modules up to date, and reports whether it did anything. The manifest lists the modules of a policy only while the engine
// has exactly the modules that the policy needs. A module that the engine refuses is no error: the status gets the refusal of its policy,
// and the modules of other policies are pushed.
func (m *modules) push(ctx context.Context) (bool, error) {
	w := m.status.currentNeeds()
	var due []string
	for _, name := range w.names() {
		digest := w.policies[name].Remote.ModulesDigest
		r := m.status.refusal(name)
		if digest != "" && m.session.manifest.Modules[name].Digest != digest && (r.digest != digest || time.Now().After(r.until)) {
			due = append(due, name)
		}
	}
	stale := m.staleModules(w)
	work := m.editsFor(w, due)
	if len(due)+len(stale)+len(work) == 0 {
		return false, nil
	}
	if len(stale) > 0 {
		err := m.session.commit(ctx, m.session.begin(), func(h *opaclient.Manifest) {
			h.RenewLoadID()
			for _, name := range stale {
				m.older[name] = h.Modules[name]
				delete(h.Modules, name)
			}
		})
		if err != nil {
			return false, err
		}
	}
	failed, err := m.applyEdits(ctx, work)
	if err != nil {
		return false, err
	}
	if failed = failed.of(due); len(failed) > 0 {
		// The old texts may conflict with the new ones.
		if failed, err = m.replaceModules(ctx, w, failed); err != nil {
			return false, err
		}
	}
	maps.Copy(failed, m.failedRemovals(w, due))
	return true, m.recordModules(ctx, w, due, failed)
}

// failedRemovals returns a failure for each old module of some policies that the engine refused to delete and still has. With it, the
// policy would decide differently.
func (m *modules) failedRemovals(w needs, policies []string) failures {
	out := failures{}
	for _, name := range policies {
		for id, refused := range m.kept {
			_, left := m.texts[id]
			needed := slices.ContainsFunc(w.policies[name].Remote.Modules, func(r policy.RemoteModule) bool { return r.ID == id })
			if left && !needed && strings.HasPrefix(id, policy.ModulePrefix+name+"/") {
				out[edit{policy: name, id: id}] = fmt.Errorf("the module can't be removed from the engine, and the policy can't decide while it "+
					"is there; if another module uses it, change or delete that one: %w", refused.err)
			}
		}
	}
	return out
}

// staleModules returns the policies of which the manifest lists modules with a digest other than that of the modules that they need now, or
// that need none. They are in no order.
func (m *modules) staleModules(w needs) []string {
	var out []string
	for name, entry := range m.session.manifest.Modules {
		if p, ok := w.policies[name]; !ok || p.Remote.ModulesDigest != entry.Digest {
			out = append(out, name)
		}
	}
	return out
}

// edit is a change of one module in the engine: to put a text, or to delete the module.
type edit struct {
	// policy is the policy that needs the module; empty in a deletion, except in a failure of failedRemovals, which has the policy that
	// an old module belongs to. text is the new text; empty to delete the module.
	policy, id, text string
}

// failures are the errors of edits that were refused.
type failures map[edit]error

// of returns the failures to put modules of some policies. It omits the failures to delete modules.
func (f failures) of(policies []string) failures {
	out := failures{}
	for e, err := range f {
		if e.text != "" && slices.Contains(policies, e.policy) {
			out[e] = err
		}
	}
	return out
}

// editsFor returns the edits that put the missing or changed modules of the due policies, and then the edits that delete Berth's modules
// that no policy needs, apart from those whose removal is not tried again yet.
func (m *modules) editsFor(w needs, due []string) []edit {
	var out []edit
	wanted := map[string]bool{}
	for _, name := range w.names() {
		for _, module := range w.policies[name].Remote.Modules {
			wanted[module.ID] = true
			if slices.Contains(due, name) && m.texts[module.ID] != module.Text {
				out = append(out, edit{name, module.ID, module.Text})
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.texts)) {
		if !wanted[id] && time.Now().After(m.kept[id].until) {
			out = append(out, edit{id: id})
		}
	}
	return out
}

// applyEdits makes edits, and repeats those that the engine refuses as long as others succeed: a module may call functions of another one,
// or conflict with it. It returns the failures of the edits that were refused to the end.
func (m *modules) applyEdits(ctx context.Context, work []edit) (failures, error) {
	for {
		failed := failures{}
		var left []edit
		for _, e := range work {
			err := m.applyEdit(ctx, e)
			if err != nil && !errors.Is(err, errRefused) {
				return nil, err
			}
			if err != nil {
				failed[e] = err
				left = append(left, e)
			}
		}
		if len(left) == 0 || len(left) == len(work) {
			for _, e := range left {
				if e.text == "" {
					m.kept[e.id] = refusedDeletion{failed[e], time.Now().Add(refusedRetryInterval)}
				}
			}
			return failed, nil
		}
		work = left
	}
}

// replaceModules deletes from the engine all modules that the policies with failures need and that the engine has, and puts these policies'
// modules again. It returns the failures to put them. An error means that the engine did not answer.
func (m *modules) replaceModules(ctx context.Context, w needs, failed failures) (failures, error) {
	var without, with []edit
	for _, name := range failed.policies() {
		for _, module := range w.policies[name].Remote.Modules {
			if _, ok := m.texts[module.ID]; ok {
				without = append(without, edit{id: module.ID})
			}
			with = append(with, edit{name, module.ID, module.Text})
		}
	}
	if len(without) > 0 {
		if _, err := m.applyEdits(ctx, without); err != nil {
			return nil, err
		}
	}
	return m.applyEdits(ctx, with)
}

// policies returns the policies whose edits failed, sorted, each once. Deletions, whose policy is empty, add "".
func (f failures) policies() []string {
	var out []string
	for e := range f {
		out = append(out, e.policy)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// urlOf returns the URL of a module in the engine. Slashes in the ID separate parts of its path.
func (m *modules) urlOf(id string) *url.URL {
	return opaclient.APIURL(m.session.base, append([]string{"policies"}, strings.Split(id, "/")...)...)
}

// applyEdit makes one edit in the engine and, if that succeeded, in texts. Deleting a module that the engine does not have succeeds.
func (m *modules) applyEdit(ctx context.Context, e edit) error {
	at := m.urlOf(e.id)
	if e.text == "" {
		if _, err := m.session.send(ctx, opaclient.Request{Method: http.MethodDelete, URL: at}); err != nil &&
			statusOf(err) != http.StatusNotFound {
			return err
		}
		delete(m.texts, e.id)
		return nil
	}
	if _, err := m.session.send(ctx, opaclient.Request{Method: http.MethodPut, URL: at, ContentType: "text/plain",
		Body: []byte(e.text)}); err != nil {
		return err
	}
	m.texts[e.id] = e.text
	return nil
}

// recordModules records which of the due policies failed, and lists the modules of the others in the manifest.
func (m *modules) recordModules(ctx context.Context, w needs, due []string, failed failures) error {
	var good []string
	for _, name := range due {
		err := failed.first(name)
		if m.status.setRefusal(name, w.policies[name].Remote.ModulesDigest, err); err == nil {
			good = append(good, name)
		}
	}
	if len(good) == 0 {
		m.status.changed(failed.policies()...)
		return nil
	}
	err := m.session.commit(ctx, m.session.begin(), func(h *opaclient.Manifest) {
		for _, name := range good {
			h.Modules[name] = m.manifestEntry(name, w.policies[name].Remote.ModulesDigest)
			delete(m.older, name)
		}
	})
	if err != nil {
		return err
	}
	m.contentChanged(good...)
	return nil
}

// first returns the failure of the policy's first module by ID; nil if there is none.
func (f failures) first(name string) error {
	var out edit
	for e := range f {
		if e.policy == name && (out.id == "" || e.id < out.id) {
			out = e
		}
	}
	if out.id == "" {
		return nil
	}
	return fmt.Errorf("module %s: %w", strings.TrimPrefix(out.id, policy.ModulePrefix+name+"/"), f[out])
}

// poll checks that one module is unchanged in the engine, the next module each time. It returns errLost if the module is not.
func (m *modules) poll(ctx context.Context) error {
	ids := slices.Sorted(maps.Keys(m.texts))
	if len(ids) == 0 {
		return nil
	}
	m.next = (m.next + 1) % len(ids)
	id := ids[m.next]
	answer, err := m.session.send(ctx, opaclient.Request{Method: http.MethodGet, URL: m.urlOf(id), Limit: maxListing})
	if err != nil && !errors.Is(err, errRefused) {
		return err
	}
	var one struct {
		Result struct {
			Raw string `json:"raw"`
		} `json:"result"`
	}
	if err != nil || json.Unmarshal(answer, &one) != nil || one.Result.Raw != m.texts[id] {
		return errLost
	}
	return nil
}
