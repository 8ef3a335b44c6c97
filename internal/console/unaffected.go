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

package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

// unaffectedView is the response of /api/unaffected: why a change of one field of a cluster changes nothing.
type unaffectedView struct {
	// Reasons has a sentence for each policy that reads the field and excludes the cluster for another reason, the same for all its
	// objects; or one that no policy reads the field. It is empty if no reason is known.
	Reasons []string `json:"reasons"`
}

// maxUnaffected is the maximum number of objects of a policy that are explained. For more, there is no reason.
const maxUnaffected = 300

// unaffected returns why a change does nothing, given that it does nothing. It knows reasons only for one change, of a field of a cluster.
// It gives none for several changes, because one of them may void the reason of another.
func (c *Console) unaffected(r *http.Request, asked changes) (*unaffectedView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	out := &unaffectedView{Reasons: []string{}}
	if len(asked.Set) != 1 || len(asked.Delete) > 0 || strings.TrimSpace(asked.Manifests) != "" {
		return out, nil
	}
	simulated, err := s.simulation(r.Context())
	if err != nil {
		return nil, err
	}
	return limited(r.Context(), s.computing, func() (*unaffectedView, error) {
		a, err := whatif.ParseAssignment(r.Context(), s.cached, asked.Set[0])
		if err != nil {
			return nil, problem{http.StatusBadRequest, err.Error()}
		}
		changed, err := s.changedField(r.Context(), a)
		if err != nil || changed == nil {
			return out, err
		}
		if len(changed.readBy) == 0 {
			out.Reasons = append(out.Reasons, fmt.Sprintf("No policy reads %s of %s.", changed.name, changed.cluster))
		}
		for _, policy := range changed.readBy {
			reason, err := changed.excluded(r.Context(), simulated, policy)
			if err != nil {
				return nil, err
			}
			if reason != "" {
				out.Reasons = append(out.Reasons, fmt.Sprintf("%s reads %s, and excludes %s anyway: %s.", policy, changed.name,
					changed.cluster, reason))
			}
		}
		return out, nil
	})
}

// changedField is a region, zones, provider, label, or annotation of a cluster that a change sets or removes, and the policies that read
// it.
type changedField struct {
	cluster string
	name    string   // such as region, or the key of a label or annotation
	readBy  []string // the names of the policies that read it, sorted
}

// changedField returns the field of a cluster that an assignment changes: its region, zones, or provider, a label, or an annotation. It
// returns nil for any other field, and unless the object exists, represents a cluster, and may be read by the user.
func (s *state) changedField(ctx context.Context, a whatif.Assignment) (*changedField, error) {
	if !slices.Contains(s.servedInventories(), a.Resource) {
		return nil, nil
	}
	obj, err := s.cached.Get(ctx, a.Resource, a.Namespace, a.Name)
	if err != nil || obj == nil {
		if apierrors.IsForbidden(err) {
			err = nil
		}
		return nil, err
	}
	inventories := s.cached.Catalog().Inventories()
	document, ok := inventories.Cluster(a.Resource, obj.Object)
	if !ok {
		return nil, nil
	}
	out, reads, isKnown := &changedField{cluster: fmt.Sprint(document["name"])}, s.readsOf(ctx, a.Resource, true), false
	for _, f := range reads.fields(inventories, a.Resource, obj) {
		if f.Path == settable(a.Path) {
			out.name, out.readBy, isKnown = f.Name, f.ReadBy, true
		}
	}
	if len(a.Path) == 3 && a.Path[0] == "metadata" && (a.Path[1] == "labels" || a.Path[1] == "annotations") {
		readBy := reads.labels(a.Path[1])
		out.name, isKnown = a.Path[2], true
		out.readBy = slices.Concat(out.readBy, readBy[a.Path[2]], readBy["*"])
	}
	if !isKnown {
		return nil, nil
	}
	slices.Sort(out.readBy)
	out.readBy = slices.Compact(out.readBy)
	return out, nil
}

// excluded returns why a policy chooses the cluster for none of the objects that it decides, whatever the field has. It returns "" if the
// objects have different reasons, one has none, or there are more than maxUnaffected, and if an object can't be read.
func (f *changedField) excluded(ctx context.Context, simulated *simulation.Simulation, policy string) (string, error) {
	common, n := "", 0
	for o, err := range simulated.Matched(ctx) {
		if err != nil {
			return "", nil
		}
		matching, err := simulated.Matching(ctx, o)
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(matching, func(p *placement.Policy) bool { return p.Name == policy }) {
			continue
		}
		if n++; n > maxUnaffected {
			return "", nil
		}
		explained, err := explain.Explain(ctx, simulated, o, explain.Options{WhyNot: f.cluster})
		if err != nil {
			return "", err
		}
		reason, ok := f.reason(explained, policy)
		if !ok || common != "" && reason != "" && reason != common {
			return "", nil
		}
		common = max(common, reason)
	}
	return common, nil
}

// reason returns which requirement the cluster does not meet, other than by the field, so that a policy does not choose it for an object;
// "" if the policy or its rules do not decide the object. It returns false if there is no such requirement.
func (f *changedField) reason(of *explain.Explanation, policy string) (string, bool) {
	i := slices.IndexFunc(of.Policies, func(p explain.Policy) bool { return p.Name == policy })
	if i < 0 || of.Policies[i].HasRules && of.Policies[i].Rule == "" {
		return "", true
	}
	if of.Clusters == nil {
		return "", false
	}
	for _, candidate := range of.Clusters.Listed {
		if candidate.Name != f.cluster {
			continue
		}
		for _, r := range candidate.Reasons {
			if r.Policy == policy && r.Unmet != "" && !r.Outranked && !slices.ContainsFunc(r.Values, f.isRead) {
				return r.Unmet, true
			}
		}
	}
	return "", false
}

// isRead reports whether a value may be that of the field: whether its reference contains the field's name.
func (f *changedField) isRead(v explain.Value) bool { return strings.Contains(v.Reference, f.name) }
