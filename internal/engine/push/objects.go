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
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/replication"
)

// objects pushes to one engine the objects of the types that policies need there, and their changes. The writer's goroutine owns it.
type objects struct {
	session *session
	status  *status
	feed    *feed
	// contentChanged is called with the policies of which pushed objects changed.
	contentChanged func(policies ...string)

	mirror *mirror
	// parents are the documents around those of types, such as data.resources, that are known to exist in the engine. Before a type is loaded
	// or removed, each of its other ones is created by a request of its own, unless it exists.
	parents map[pointer]bool
	// polls is the number of calls of poll so far, which decides the type that the next one samples.
	polls int
}

// reset empties the mirror, and forgets which parents exist, so that everything is loaded again. It does not change the feed.
func (s *objects) reset() {
	s.mirror = &mirror{tables: map[schema.GroupVersionResource]*table{}, clusters: map[string]map[replication.Claim]*record{}}
	s.parents = map[pointer]bool{}
}

// keepListed adds to the manifest next the types that the previous manifest lists. They stay complete only if they are still needed in the
// same form, if their objects do not represent clusters, and if reliable is true: the engine has lost nothing.
func (s *objects) keepListed(old, next *opaclient.Manifest, reliable bool) {
	for name, whole := range old.Types {
		r, ok := opaclient.ParseType(name)
		needed, ambiguous := s.feed.needs(r)
		// The manifest does not tell which inventories the clusters came from.
		keep := ok && whole && needed && !s.feed.store.inventories[r] && !ambiguous && reliable && s.status.refusal(name).err == nil
		next.Types[name] = keep
		if keep {
			for _, parent := range parentsOf(r) {
				s.parents[parent] = true
			}
		}
	}
}

// commit sends a transaction of the session, with the changes of data.clusters that follow from it. edit, if not nil, changes the manifest.
// If the transaction changes data.berth.ambiguousclusters, commit calls changed with all policies of the engine, also if the transaction
// failed.
func (s *objects) commit(ctx context.Context, c *change, edit func(*opaclient.Manifest)) error {
	ambiguity := s.mirror.writtenClusters != nil && s.mirror.patchClusters(c)
	err := s.session.commit(ctx, c, edit)
	if ambiguity {
		needs := s.status.currentNeeds()
		s.status.changed(needs.names()...)
	}
	return err
}

// parentsOf returns the documents that contain those of a type's objects, an outer one before the one in it: data.kubernetes,
// data.resources, and the one of the type's group and version in data.resources. data.berth is not among them.
func parentsOf(r schema.GroupVersionResource) []pointer {
	resources := pointer("").below("resources")
	return []pointer{pointer("").below("kubernetes"), resources, resources.below(r.GroupVersion().String())}
}

// ensureParents creates, as empty objects, the documents that contain those of a type's objects: data.kubernetes, data.resources, and the
// one of the type's group and version. It does so by one request each, outside of transactions, which the engine ignores if the document
// exists, because it may contain documents of others.
func (s *objects) ensureParents(ctx context.Context, r schema.GroupVersionResource) error {
	for _, parent := range parentsOf(r) {
		if s.parents[parent] {
			continue
		}
		_, err := s.session.send(ctx, opaclient.Request{Method: http.MethodPut, URL: opaclient.APIURL(s.session.base,
			append([]string{"data"}, parent.names()...)...), Body: []byte("{}"), IfAbsent: true})
		if err != nil && statusOf(err) != http.StatusNotModified {
			return err
		}
		s.parents[parent] = true
	}
	return nil
}

// removeTypes removes from the engine one type that no policy needs or that is not served, and reports whether there was one.
func (s *objects) removeTypes(ctx context.Context) (bool, error) {
	for _, name := range slices.Sorted(maps.Keys(s.session.manifest.Types)) {
		r, ok := opaclient.ParseType(name)
		if !ok {
			return true, s.commit(ctx, s.session.begin(), func(h *opaclient.Manifest) { delete(h.Types, name) })
		}
		if needed, _ := s.feed.needs(r); !needed {
			return true, s.removeType(ctx, r)
		}
	}
	return false, nil
}

// removeType removes the documents of a type, and its entry in the manifest. A first transaction lists the type as incomplete and sets its
// documents empty, also those that may not exist; a second one removes the documents and the entry. With the last type whose objects
// represent clusters, data.clusters and data.berth.ambiguousclusters go, too.
func (s *objects) removeType(ctx context.Context, r schema.GroupVersionResource) error {
	if err := s.ensureParents(ctx, r); err != nil {
		return err
	}
	c := s.session.begin()
	s.mirror.removeType(c, r)
	// Another type may use the bare plural name by now.
	taken := false
	for other, t := range s.mirror.tables {
		taken = taken || slices.ContainsFunc(t.places, func(p documentPlace) bool {
			return other.Resource == r.Resource && p.path == barePlace(r)
		})
	}
	for name := range s.session.manifest.Types {
		other, _ := opaclient.ParseType(name)
		taken = taken || other != r && other.Resource == r.Resource && s.session.manifest.Types[name] && s.mirror.tables[other] == nil
	}
	// It is unknown whether the places exist if another replica loaded the type. Set them empty first, so that they can be
	// removed.
	var gone []pointer
	for _, p := range placesOf(r, taken) {
		c.set(p.path, []byte("{}"))
		gone = append(gone, p.path)
	}
	if s.feed.store.inventories[r] && !s.inventories() {
		s.mirror.endClusters(c)
		gone = append(gone, clustersPlace, ambiguousPlace)
	}
	if err := s.commit(ctx, c, markIncomplete(r)); err != nil {
		return err
	}
	c = s.session.begin()
	for _, path := range gone {
		c.remove(path)
	}
	return s.commit(ctx, c, func(h *opaclient.Manifest) { delete(h.Types, opaclient.TypeName(r)) })
}

// markIncomplete returns an edit of the manifest that lists a type as incomplete, and sets a new LoadID if the type was listed as complete.
func markIncomplete(r schema.GroupVersionResource) func(*opaclient.Manifest) {
	return func(h *opaclient.Manifest) {
		if h.Types[opaclient.TypeName(r)] {
			h.RenewLoadID()
		}
		h.Types[opaclient.TypeName(r)] = false
	}
}

// inventories reports whether the engine has any type whose objects represent clusters.
func (s *objects) inventories() bool {
	for r := range s.mirror.tables {
		if s.feed.store.inventories[r] {
			return true
		}
	}
	return false
}

// loadTypes loads one type that the engine needs, if its changes are not followed yet or it has to be in other places now, and reports
// whether there was one. It returns the error of a load that fails. If the engine refused the objects, the type is not due again before
// refusedRetryInterval has passed.
func (s *objects) loadTypes(ctx context.Context) (bool, error) {
	var due []schema.GroupVersionResource
	for r, followed := range s.feed.loadable() {
		t := s.mirror.tables[r]
		_, ambiguous := s.feed.needs(r)
		stale := t == nil || !followed || len(t.places) != len(placesOf(r, ambiguous))
		if stale && time.Now().After(s.status.refusal(opaclient.TypeName(r)).until) {
			due = append(due, r)
		}
	}
	if len(due) == 0 {
		return false, nil
	}
	// Loaded types come first: one of them may have to give up the bare plural name.
	next := slices.MinFunc(due, func(a, b schema.GroupVersionResource) int {
		if loaded := s.mirror.tables[a] != nil; loaded != (s.mirror.tables[b] != nil) {
			if loaded {
				return -1
			}
			return 1
		}
		return compareTypes(a, b)
	})
	objects, ambiguous := s.feed.follow(next)
	if objects == nil {
		return true, nil
	}
	err := s.load(ctx, next, ambiguous, splitBySize(objects, s.feed.store.bodyLimit))
	s.status.setRefusal(opaclient.TypeName(next), "", err)
	if err != nil {
		return false, err
	}
	s.notifyChanged(map[schema.GroupVersionResource]bool{next: true})
	return true, nil
}

// notifyChanged calls contentChanged with the names of the policies that need one of the types, sorted. It calls it also if there are none.
func (s *objects) notifyChanged(types map[schema.GroupVersionResource]bool) {
	w := s.status.currentNeeds()
	s.contentChanged(w.policiesNeeding(types)...)
}

// load replaces the content of a type by the objects of all portions, one transaction for each portion. With several portions, the manifest
// lists the type as incomplete until the last. ambiguous reports whether the engine needs several types with the plural name.
func (s *objects) load(ctx context.Context, r schema.GroupVersionResource, ambiguous bool, all [][]keyedRecord) error {
	if err := s.ensureParents(ctx, r); err != nil {
		return err
	}
	inventory := s.feed.store.inventories[r]
	existing := s.mirror.tables[r]
	if ambiguous && existing == nil {
		// It is unknown what another replica left there. Set it empty first, so that it can be removed.
		c := s.session.begin()
		c.set(barePlace(r), []byte("{}"))
		if err := s.commit(ctx, c, markIncomplete(r)); err != nil {
			return err
		}
	}
	for i, portion := range all {
		c := s.session.begin()
		if i == 0 {
			if inventory {
				s.mirror.beginClusters(c)
			}
			if ambiguous && (existing == nil || len(existing.places) != len(placesOf(r, true))) {
				c.remove(barePlace(r))
			}
			s.mirror.fillType(c, r, ambiguous, portion)
		} else {
			for _, o := range portion {
				s.mirror.put(c, r, o.objectKey, o.record)
			}
		}
		var edit func(*opaclient.Manifest)
		switch {
		case i == len(all)-1:
			edit = func(h *opaclient.Manifest) { h.Types[opaclient.TypeName(r)] = true }
		case i == 0:
			edit = markIncomplete(r)
		}
		if err := s.commit(ctx, c, edit); err != nil {
			return err
		}
	}
	return nil
}

// sendChanges sends the oldest changes that the engine does not have, and reports whether there were any.
func (s *objects) sendChanges(ctx context.Context) (bool, error) {
	w := s.feed.next()
	if w == nil {
		return false, nil
	}
	c := s.session.begin()
	for _, at := range w.sorted() {
		s.mirror.put(c, at.resource, at.objectKey, w.changes[at])
	}
	if err := s.commit(ctx, c, nil); err != nil {
		return false, err
	}
	s.feed.pushed()
	s.notifyChanged(w.types())
	return true, nil
}

// poll checks that samples of the objects are still in the engine, of another type each time. It returns errLost if one is missing, and the
// error of a request that gets no answer. A sample whose request the engine refuses, other than with status 404, counts as present. No
// changes are pushed meanwhile.
func (s *objects) poll(ctx context.Context) error {
	s.polls++
	for _, names := range s.mirror.samples(s.polls) {
		answer, err := s.session.send(ctx, opaclient.Request{Method: http.MethodGet, URL: opaclient.APIURL(s.session.base,
			append([]string{"data"}, names...)...), Limit: maxListing})
		switch {
		case statusOf(err) == http.StatusNotFound:
			return errLost
		case errors.Is(err, errRefused):
			// An error response says nothing about the data.
			continue
		case err != nil:
			return err
		}
		var one struct {
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(answer, &one) != nil || one.Result == nil {
			return errLost
		}
	}
	return nil
}
