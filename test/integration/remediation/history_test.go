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

package remediation_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// history is a world that changes at random: clusters, policies and their rollouts, objects that developers create, update, and delete, and
// leaders.
type history struct {
	*rand.Rand
	fleet, namespace string
	clusters         []string
	policies         []string
	// manifests are the annotations that the developers of the objects ask for.
	manifests map[string]map[string]string
}

func newHistory(ctx context.Context, seed int64) *history {
	GinkgoHelper()
	h := &history{
		Rand: rand.New(rand.NewPCG(uint64(seed), 21)), clusters: []string{"eu1", "eu2", "us1"}, manifests: map[string]map[string]string{},
		namespace: f.NewNamespace(ctx, nil),
	}
	h.fleet = newFleet(ctx, h.clusters...)
	calm := func(p *placementv1.PlacementPolicy) {
		// The history itself says when it pauses.
		p.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{Percent: 100}
	}
	h.policies = []string{
		onConfigMaps(ctx, "clusters", h.text(0), h.namespace, calm),
		onConfigMaps(ctx, "tiers", h.text(1), h.namespace, calm),
		onConfigMaps(ctx, "others", h.text(2), h.namespace, calm),
	}
	return h
}

// text returns a version of a policy.
func (h *history) text(policy int) string {
	value := fmt.Sprint("v", h.IntN(3))
	switch {
	case policy == 0 && h.IntN(3) > 0:
		return certified("annotations", clustersKey, h.fleet)
	case h.IntN(4) == 0:
		return framework.Rego(fmt.Sprintf(`annotations[%q] := "from-owner" if input.metadata.annotations["example.com/owner"] == "a"`, tierKey))
	case h.IntN(3) == 0:
		return always("example.com/"+value, value)
	default:
		return always(tierKey, value)
	}
}

// step changes something.
func (h *history) step(ctx context.Context) {
	GinkgoHelper()
	name := fmt.Sprintf("o-%d", h.IntN(8))
	switch h.IntN(12) {
	case 0:
		certify(ctx, h.fleet, h.clusters[h.IntN(len(h.clusters))], []string{"yes", "no"}[h.IntN(2)])
	case 1, 2:
		policy := h.IntN(len(h.policies))
		mode := []placementv1.RemediationMode{placementv1.RemediationAutomatic, placementv1.RemediationManual, placementv1.RemediationOff}[h.IntN(3)]
		text, priority, rollout := h.text(policy), int32(h.IntN(2)), h.IntN(4)
		f.ChangePolicy(ctx, h.policies[policy], func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego, p.Spec.Remediation.Mode, p.Spec.Priority = text, mode, priority
			p.Spec.Rollout = h.rollout(rollout, p.Status.Rollout)
		})
	case 3:
		if _, exists := h.manifests[name]; exists {
			Expect(f.Client.Delete(ctx, framework.NewObject(framework.ConfigMap, h.namespace, name, nil))).To(Succeed())
			delete(h.manifests, name)
		}
	default:
		if _, exists := h.manifests[name]; !exists {
			h.manifests[name] = map[string]string{"example.com/owner": []string{"a", "b"}[h.IntN(2)], clustersKey: "eu1_us1"}
			create(ctx, framework.ConfigMap, h.namespace, name, maps.Clone(h.manifests[name]))
			return
		}
		h.update(ctx, name)
	}
}

// rollout returns none, stages that are not approved, stages that need no approval, or a stored revision.
func (h *history) rollout(kind int, before *placementv1.RolloutStatus) *placementv1.PolicyRollout {
	switch {
	case kind == 0:
		return nil
	case kind == 1 && before != nil && len(before.Revisions) > 0:
		return &placementv1.PolicyRollout{Revision: before.Revisions[len(before.Revisions)-1]}
	default:
		return &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{{Name: "half", Percent: 50}, {Name: "rest", Percent: 100, Approval: kind == 2}}}
	}
}

// update has the developer of an object ask for something else. A value that the object has already is not asked for: an update
// that sets it is not one, and Berth keeps what was asked for before. Nor is one that Berth set earlier, which stays Berth's.
func (h *history) update(ctx context.Context, name string) {
	GinkgoHelper()
	key := []string{"example.com/owner", clustersKey, tierKey}[h.IntN(3)]
	value := map[string][]string{
		"example.com/owner": {"a", "b", ""}, clustersKey: {"mine", "yours", "ours"}, tierKey: {"mine", "yours", ""},
	}[key][h.IntN(3)]
	Eventually(func(ctx context.Context) error {
		obj, err := f.Get(ctx, framework.ConfigMap, h.namespace, name)
		if err != nil {
			return err
		}
		annotations := obj.GetAnnotations()
		if before, set := annotations[key]; before == value && set == (value != "") {
			return nil
		}
		if annotations[key] = value; value == "" {
			delete(annotations, key)
		}
		obj.SetAnnotations(annotations)
		// Remediation may have patched the object meanwhile.
		if err := f.Client.Update(ctx, obj); err != nil {
			return err
		}
		if h.manifests[name][key] = value; value == "" {
			delete(h.manifests[name], key)
		}
		return nil
	}).WithContext(ctx).Should(Succeed())
}

// differences returns how existing objects differ from what their manifests would give if they were created now.
func (h *history) differences(ctx context.Context) (string, error) {
	existing, fresh := map[string]map[string]string{}, map[string]map[string]string{}
	for name, manifest := range h.manifests {
		got, err := f.Get(ctx, framework.ConfigMap, h.namespace, name)
		if err != nil {
			return "", err
		}
		would := framework.NewObject(framework.ConfigMap, h.namespace, name+"-fresh", maps.Clone(manifest))
		if err := f.Client.Create(ctx, would, client.DryRunAll); err != nil {
			return "", err
		}
		existing[name], fresh[name] = framework.AnnotationsOf(got), framework.AnnotationsOf(would)
	}
	return cmp.Diff(fresh, existing), nil
}

var _ = Describe("A history that ends quiet", func() {
	It("leaves every object as if it was created afresh", Label("slow"), func(ctx SpecContext) {
		seed := GinkgoRandomSeed()
		h := newHistory(ctx, seed)
		for step := range 60 {
			h.step(ctx)
			if step == 30 {
				stopOperator()
				startOperator(ctx)
			}
		}
		for i, name := range h.policies {
			text := h.text(i)
			f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
				p.Spec.Rego, p.Spec.Remediation.Mode = text, placementv1.RemediationAutomatic
			})
		}
		for _, name := range h.policies {
			f.AwaitReady(ctx, name)
		}
		// Remediation holds patches back while data keep changing, and applying the policies again ends that.
		Eventually(h.differences).WithContext(ctx).WithTimeout(2*framework.Timeout).Should(BeEmpty(), "seed %d (existing: +, created afresh: -)", seed)
		Expect(h.manifests).NotTo(BeEmpty())
		for _, name := range h.policies {
			expectCompliant(ctx, name)
		}
	})
})
