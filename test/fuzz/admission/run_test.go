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

package admission_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/berth-dev/berth/test/controlplane"
)

// Prefixes of the names of namespaces: those that policies match, and their shadows.
const (
	policedPrefix = "policed-"
	shadowPrefix  = "shadow-"
)

// unpoliced is the value of the label policedKey by which no policy matches. The others are the remediation modes.
const unpoliced = "no"

// runner runs recipes, one at a time, in namespaces of its own.
type runner struct {
	admin, developer *client
	// policed is the one of modes in which the present recipe runs. They have the order of remediations.
	policed, shadow *side
	modes           []*side
	// recipes counts them; names of objects are of one recipe alone, since what watches have seen may be older.
	recipes int
}

// key names an object within a side.
type key struct {
	kind kind
	name string
}

// side is one of the namespaces, and what is known of the objects of the present recipe in it.
type side struct {
	namespace string
	// policed is the value of the label policedKey of its namespaces.
	policed string
	stored  map[key]map[string]any
	// ids are texts that differ between the sides, and what they stand for.
	ids map[string]string
}

// errTimedOut says that a policy was not decided in time, which depends on the machine.
var errTimedOut = errors.New("a policy was not decided in time")

// errOwnership says that the sides are no longer alike, since field managers own other fields where policies decide them.
var errOwnership = errors.New("field managers own other fields than where no policy matches")

// newRunner creates the namespaces.
func newRunner(ctx context.Context, c *cluster) (*runner, error) {
	r := &runner{}
	var err error
	if r.admin, err = c.client(controlplane.AdminUser); err != nil {
		return nil, err
	}
	if r.developer, err = c.client(developerUser); err != nil {
		return nil, err
	}
	for _, mode := range remediations {
		s, err := r.newSide(ctx, policedPrefix, mode)
		if err != nil {
			return nil, err
		}
		r.modes = append(r.modes, s)
	}
	r.shadow, err = r.newSide(ctx, shadowPrefix, unpoliced)
	return r, err
}

// newSide creates a namespace.
func (r *runner) newSide(ctx context.Context, prefix, policed string) (*side, error) {
	body := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": prefix, "labels": map[string]any{policedKey: policed}}}
	answer, err := r.admin.do(ctx, call{method: http.MethodPost, path: resources[namespace].path(""), contentType: contentJSON, body: encodeJSON(body)})
	if err != nil {
		return nil, err
	}
	object, err := answer.object()
	name, _ := at(object, "metadata", "name").(string)
	if err != nil || !answer.ok() {
		return nil, fmt.Errorf("creating a namespace: %s: %w", answer.body, err)
	}
	return &side{namespace: name, policed: policed}, nil
}

// run runs a recipe and returns what must not be. Nothing of the recipe is left behind.
func (r *runner) run(ctx context.Context, steps recipe) (err error) {
	r.recipes++
	r.policed = r.modes[0]
	if len(steps) > 0 {
		r.policed = r.modes[steps[0].remediation]
	}
	for _, s := range []*side{r.policed, r.shadow} {
		s.stored, s.ids = map[key]map[string]any{}, map[string]string{s.namespace: "the-namespace"}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		err = errors.Join(err, r.cleanUp(ctx, steps))
	}()
	for i, op := range steps {
		err := r.step(ctx, op)
		if errors.Is(err, errOwnership) {
			return r.inspectDenied(ctx, steps)
		}
		if err != nil {
			return fmt.Errorf("operation %d, %v: %w", i, op, err)
		}
	}
	return r.inspect(ctx, steps)
}

// name returns the name of an operation's object.
func (r *runner) name(s *side, k kind, number byte) string {
	name := fmt.Sprintf("%c-%d", 'a'+number, r.recipes)
	if k == namespace {
		return s.namespace + "-" + name
	}
	return name
}

// step sends one operation to both sides and compares. What a policy refuses is tried on the other side without being
// stored, so that both stay alike.
func (r *runner) step(ctx context.Context, op operation) error {
	policed, err := r.send(ctx, r.policed, op, false)
	if err != nil {
		return err
	}
	if policed.code == http.StatusInternalServerError && strings.Contains(policed.message(), "deadline") {
		return errTimedOut
	}
	byPolicy := policed.code == http.StatusForbidden && strings.Contains(policed.message(), `PlacementPolicy "fuzz-`)
	shadow, err := r.send(ctx, r.shadow, op, byPolicy)
	if err != nil {
		return err
	}
	switch {
	case policed.ok() && shadow.ok():
		return r.accepted(ctx, op, policed, shadow)
	case policed.ok() != shadow.ok() && (conflictOverDecided(policed) || conflictOverDecided(shadow)):
		return errOwnership
	case policed.ok():
		return fmt.Errorf("accepted, and refused where no policy matches: %s", shadow.message())
	case byPolicy && shadow.ok():
		object, err := shadow.object()
		if err == nil && violation(object) == "" {
			err = fmt.Errorf("a policy refuses what none denies: %s", policed.message())
		}
		return err
	case shadow.ok():
		return fmt.Errorf("refused with code %d, and accepted where no policy matches: %s", policed.code, policed.message())
	case !byPolicy && policed.code != shadow.code:
		return fmt.Errorf("refused with code %d, and where no policy matches with %d: %s; %s", policed.code, shadow.code, policed.message(), shadow.message())
	}
	return nil
}

// send sends an operation to one side. Remediation may change an object meanwhile; an operation that names the version of
// the object is then sent again with the new one.
func (r *runner) send(ctx context.Context, s *side, op operation, forceDryRun bool) (response, error) {
	const tries = 5
	user := r.developer
	if op.privileged() {
		user = r.admin
	}
	name := r.name(s, op.kind, op.name)
	for try := 1; ; try++ {
		at := site{
			operation: op, policed: s.policed, stored: s.stored[key{op.kind, name}], body: map[string]any{},
			owner: s.stored[key{deployment, r.name(s, deployment, op.name)}],
		}
		answer, err := user.do(ctx, at.build(s.namespace, name, forceDryRun))
		conflict := answer.code == http.StatusConflict && (op.has(currentVersion) || op.flags.has(modify)) && at.stored != nil
		if err != nil || !conflict || try == tries {
			return answer, err
		}
		if err := r.refresh(ctx, s, op.kind, name); err != nil {
			return answer, err
		}
	}
}

// refresh reads what is stored of an object.
func (r *runner) refresh(ctx context.Context, s *side, k kind, name string) error {
	answer, err := r.admin.do(ctx, call{method: http.MethodGet, path: resources[k].path(s.namespace) + "/" + name})
	if err != nil {
		return err
	}
	if answer.code == http.StatusNotFound {
		delete(s.stored, key{k, name})
		return nil
	}
	object, err := answer.object()
	if err == nil {
		s.keep(k, name, object)
	}
	return err
}

func (s *side) keep(k kind, name string, object map[string]any) {
	s.stored[key{k, name}] = object
	if uid, _ := at(object, "metadata", "uid").(string); uid != "" {
		s.ids[uid] = "uid-of-" + resources[k].plural + "-" + name[strings.LastIndexByte(name[:strings.LastIndexByte(name, '-')], '-')+1:]
	}
}

// accepted judges what both sides have accepted.
func (r *runner) accepted(ctx context.Context, op operation, policed, shadow response) error {
	if op.verb > strategicPatch {
		if op.flags.has(dryRun) {
			return nil
		}
		// The answer is not the object, or there is none. A collection has both names.
		for _, s := range []*side{r.policed, r.shadow} {
			for number := range byte(2) {
				if err := r.refresh(ctx, s, op.kind, r.name(s, op.kind, number)); err != nil {
					return err
				}
			}
		}
		return r.compareStored(op.kind)
	}
	object, err := policed.object()
	if err != nil {
		return err
	}
	other, err := shadow.object()
	if err != nil {
		return err
	}
	if !op.flags.has(dryRun) {
		for s, o := range map[*side]map[string]any{r.policed: object, r.shadow: other} {
			name, _ := at(o, "metadata", "name").(string)
			if at(o, "metadata", "generateName") != nil {
				// Nothing names it again.
				s.ids[at(o, "metadata", "uid").(string)], s.ids[name] = "generated-uid", "generated-name"
				continue
			}
			s.keep(op.kind, name, o)
		}
	}
	return r.judge(object, other)
}

// judge judges an object and its shadow.
func (r *runner) judge(object, shadow map[string]any) error {
	if denied := violation(object); denied != "" {
		return fmt.Errorf("an object exists that a policy denies (%s): %s", denied, encodeJSON(object))
	}
	if lacking := undecided(object); lacking != "" {
		return fmt.Errorf("an object lacks what a policy decides (%s): %s", lacking, encodeJSON(object))
	}
	if diff := compare(object, shadow, r.policed.ids, r.shadow.ids); diff != "" {
		return errors.New(diff)
	}
	return nil
}

func (r *runner) compareStored(k kind) error {
	for number := range byte(2) {
		object, there := r.policed.stored[key{k, r.name(r.policed, k, number)}]
		shadow, expected := r.shadow.stored[key{k, r.name(r.shadow, k, number)}]
		if there != expected {
			return fmt.Errorf("an object exists (%t) and its shadow does not (%t)", there, expected)
		}
		if !there {
			continue
		}
		if err := r.judge(object, shadow); err != nil {
			return err
		}
	}
	return nil
}

// inspectDenied reads what is stored of every kind that a recipe touched, and fails if policies deny any of it.
func (r *runner) inspectDenied(ctx context.Context, steps recipe) error {
	for _, k := range kindsOf(steps) {
		objects, err := r.list(ctx, r.policed, k)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if denied := violation(object); denied != "" {
				return fmt.Errorf("in the end an object exists that a policy denies (%s): %s", denied, encodeJSON(object))
			}
		}
	}
	return nil
}

// inspect is inspectDenied, and compares what is stored with its shadow.
func (r *runner) inspect(ctx context.Context, steps recipe) error {
	if err := r.inspectDenied(ctx, steps); err != nil {
		return err
	}
	for _, k := range kindsOf(steps) {
		for _, s := range []*side{r.policed, r.shadow} {
			for number := range byte(2) {
				if err := r.refresh(ctx, s, k, r.name(s, k, number)); err != nil {
					return err
				}
			}
		}
		if err := r.compareStored(k); err != nil {
			return fmt.Errorf("in the end: %w", err)
		}
	}
	return nil
}

func kindsOf(steps recipe) []kind {
	seen := map[kind]bool{}
	for _, op := range steps {
		seen[op.kind] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// list returns the objects of a kind that the side's recipes left, as an administrator sees them.
func (r *runner) list(ctx context.Context, s *side, k kind) ([]map[string]any, error) {
	answer, err := r.admin.do(ctx, call{method: http.MethodGet, path: resources[k].path(s.namespace)})
	if err != nil {
		return nil, err
	}
	if !answer.ok() {
		return nil, fmt.Errorf("listing %s: %s", resources[k].plural, answer.message())
	}
	whole, err := answer.object()
	if err != nil {
		return nil, err
	}
	items, _ := whole["items"].([]any)
	var out []map[string]any
	for _, item := range items {
		object, _ := item.(map[string]any)
		name, _ := at(object, "metadata", "name").(string)
		if k == namespace && !strings.HasPrefix(name, s.namespace+"-") {
			continue
		}
		// Items of a list have no kind of their own.
		object["kind"], object["apiVersion"] = resources[k].kind, resources[k].apiVersion()
		out = append(out, object)
	}
	return out, nil
}

// cleanUp deletes what a recipe left, with its finalizers, as an administrator.
func (r *runner) cleanUp(ctx context.Context, steps recipe) error {
	for _, k := range kindsOf(steps) {
		for _, s := range []*side{r.policed, r.shadow} {
			objects, err := r.list(ctx, s, k)
			if err != nil {
				return err
			}
			for _, object := range objects {
				if err := r.remove(ctx, s, k, object); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *runner) remove(ctx context.Context, s *side, k kind, object map[string]any) error {
	name, _ := at(object, "metadata", "name").(string)
	path := resources[k].path(s.namespace) + "/" + name
	calls := []call{{method: http.MethodDelete, path: path, contentType: contentJSON, body: []byte(`{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"propagationPolicy":"Background"}`)}}
	if at(object, "metadata", "finalizers") != nil {
		calls = append(calls, call{method: http.MethodPatch, path: path, contentType: contentMerge, body: []byte(`{"metadata":{"finalizers":null}}`)})
	}
	if k == namespace {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q},"spec":{"finalizers":[]}}`, name)
		calls = append(calls, call{method: http.MethodPut, path: path + "/finalize", contentType: contentJSON, body: []byte(body)})
	}
	for _, c := range calls {
		answer, err := r.admin.do(ctx, c)
		if err != nil {
			return err
		}
		if !answer.ok() && answer.code != http.StatusNotFound {
			return fmt.Errorf("cleaning up: %s %s: %s", c.method, c.path, answer.message())
		}
	}
	return nil
}
