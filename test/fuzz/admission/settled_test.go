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
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/test/controlplane"
)

// settleTimeout is how long the manager may take to count what is left.
const settleTimeout = 3 * time.Minute

// counts are what the status of a policy says.
type counts struct {
	Matched, Violations *int
	Remediated          int
}

func (c *cluster) counts(ctx context.Context, admin *client, policy string) (counts, error) {
	answer, err := admin.do(ctx, call{method: http.MethodGet, path: "/apis/placement.berth.dev/v1alpha1/placementpolicies/" + policy})
	if err != nil {
		return counts{}, err
	}
	var p struct{ Status counts }
	if err := json.Unmarshal(answer.body, &p); err != nil || !answer.ok() {
		return counts{}, fmt.Errorf("reading PlacementPolicy %s: %s: %w", policy, answer.body, err)
	}
	return p.Status, nil
}

// all returns the objects of a type in all namespaces.
func (r resource) all(ctx context.Context, admin *client) ([]any, error) {
	answer, err := admin.do(ctx, call{method: http.MethodGet, path: strings.Replace(r.path("ANY"), "/namespaces/ANY", "", 1)})
	if err != nil {
		return nil, err
	}
	list, err := answer.object()
	items, _ := list["items"].([]any)
	return items, err
}

// objects returns the resource versions of all objects in namespaces that policies with remediation mode Automatic match, by
// path, and how many of them the policies deny.
func (c *cluster) objects(ctx context.Context, admin *client) (versions map[string]string, denied int, err error) {
	versions = map[string]string{}
	namespaces, err := resources[namespace].all(ctx, admin)
	if err != nil {
		return nil, 0, err
	}
	// A recipe that was cut off may leave any namespace with the label.
	policed := map[string]bool{}
	for _, item := range namespaces {
		object, _ := item.(map[string]any)
		name, _ := at(object, "metadata", "name").(string)
		policed[name] = at(object, "metadata", "labels", policedKey) == remediations[0]
	}
	for _, r := range resources {
		items, err := r.all(ctx, admin)
		if err != nil {
			return nil, 0, err
		}
		for _, item := range items {
			object, _ := item.(map[string]any)
			in, _ := at(object, "metadata", "namespace").(string)
			name, _ := at(object, "metadata", "name").(string)
			if r.clusterScoped {
				in = name
			}
			if !policed[in] {
				continue
			}
			object["kind"] = r.kind
			version, _ := at(object, "metadata", "resourceVersion").(string)
			versions[r.plural+"/"+in+"/"+name] = version
			if violation(object) != "" {
				denied++
			}
		}
	}
	return versions, denied, nil
}

// settle waits until the status of the denying policy with remediation mode Automatic counts the objects that exist, and returns
// how often remediation has patched any, and the versions of all objects. No object changes while it looks.
func (c *cluster) settle(ctx context.Context) (remediated int, versions map[string]string, err error) {
	admin, err := c.client(controlplane.AdminUser)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var last string
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		before, _, err := c.objects(ctx, admin)
		if err != nil {
			return false, err
		}
		remediated = 0
		for _, policy := range []string{"fuzz-deny-automatic", "fuzz-place-automatic", "fuzz-select-automatic"} {
			status, err := c.counts(ctx, admin, policy)
			if err != nil {
				return false, err
			}
			remediated += status.Remediated
			_, denied, err := c.objects(ctx, admin)
			if err != nil {
				return false, err
			}
			if policy == "fuzz-select-automatic" {
				continue
			}
			// What one policy denies, the other one can't change.
			if status.Matched == nil || status.Violations == nil || *status.Matched != len(before) || *status.Violations != denied {
				text, _ := json.Marshal(status)
				last = fmt.Sprintf("%s has the status %s; it matches %v, and %d are violations", policy, text, slices.Sorted(maps.Keys(before)), denied)
				return false, nil
			}
		}
		versions, _, err = c.objects(ctx, admin)
		if err == nil && !maps.Equal(before, versions) {
			last = "objects change"
		}
		return maps.Equal(before, versions), err
	})
	if err != nil {
		err = fmt.Errorf("the policies do not settle: %s: %w", last, err)
	}
	return remediated, versions, err
}

// checkSettled reports whether all that recipes did has left nothing to remediate: what admission accepts, remediation
// does not touch, and the objects that were there before are as they were.
func (c *cluster) checkSettled(ctx context.Context) error {
	remediated, versions, err := c.settle(ctx)
	if err != nil {
		return err
	}
	if remediated != c.remediated {
		return fmt.Errorf("remediation patched %d objects that admission had decided", remediated-c.remediated)
	}
	for _, path := range slices.Sorted(maps.Keys(c.versions)) {
		if versions[path] != c.versions[path] {
			return fmt.Errorf("%s was changed: its version is %q, and was %q", path, versions[path], c.versions[path])
		}
	}
	return nil
}
