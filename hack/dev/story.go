package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// preferencesPath is the placement's annotation key as kubectl's paths want it.
	preferencesPath = `federation\.kubernetes\.io/replica-set-preferences`

	pciLabel = "compliance.berth.dev/pci-level"

	eu1 = "gce-europe-west1"
	eu2 = "gce-europe-west2"

	crdFile       = "hack/demo/clusterprofile-crd.yaml"
	clustersFile  = "hack/demo/clusters.yaml"
	policyFile    = "hack/demo/policy.yaml"
	brokenFile    = "hack/demo/policy-broken.yaml"
	plainFile     = "hack/demo/workload-plain.yaml"
	euFile        = "hack/demo/workload-eu.yaml"
	euAndUSFile   = "hack/demo/workload-eu-and-us.yaml"
	usFile        = "hack/demo/workload-us.yaml"
	limitFile     = "hack/demo/quota-limit.yaml"
	quotaFile     = "hack/demo/quota.yaml"
	firstFile     = "hack/demo/pod-gold-first.yaml"
	secondFile    = "hack/demo/pod-gold-second.yaml"
	plainWorkload = "nginx-plain"
	euWorkload    = "nginx-eu"
	mixedWorkload = "nginx-eu-and-us"
	usWorkload    = "nginx-us"

	// The kind's full name, because fleet managers have placementpolicies too.
	policies = "placementpolicies.placement.berth.dev"
	policy   = policies + "/eu-pci"
	profiles = "clusterprofiles.multicluster.x-k8s.io"
	webhooks = "mutatingwebhookconfigurations"
)

// act is one step of the story.
type act struct {
	title string
	why   string
	play  func(context.Context, *stage) error
}

var story = []act{
	{
		title: "An open API server",
		why: `Berth runs, but no policy exists: no webhook is registered, so nothing is asked and nothing is refused.
A workload that demands the EU and asks for a cluster in the US would be admitted.`,
		play: func(ctx context.Context, s *stage) error {
			if err := s.becomes(ctx, noWebhook, "get", webhooks); err != nil {
				return err
			}
			return s.succeeds(ctx, []string{"created (server dry run)"}, "apply", "--dry-run=server", "-f", usFile)
		},
	},
	{
		title: "An inventory and a policy",
		why: `Three clusters: two in the EU with PCI level 2, one in the US. The policy says: a workload that requires EU
jurisdiction and a PCI level runs only where both hold. Nobody tells Berth what to replicate; it reads that from the policy.`,
		play: func(ctx context.Context, s *stage) error {
			for _, args := range [][]string{
				{"apply", "-f", crdFile},
				{"wait", "--for=condition=Established", "--timeout=60s", "-f", crdFile},
				{"apply", "-f", clustersFile},
				{"get", profiles, "-n", "fleet", "-L", "topology.berth.dev/jurisdiction,compliance.berth.dev/pci-level"},
				{"apply", "-f", policyFile},
				{"wait", "--for=condition=Ready", "--timeout=60s", policy},
			} {
				if err := s.succeeds(ctx, nil, args...); err != nil {
					return err
				}
			}
			return s.succeeds(ctx, []string{"eu-pci", "True", "Enforce"}, "get", policies)
		},
	},
	{
		title: "A mistake in Rego is refused at once",
		why:   `The author learns the line and column when applying; the policy in force stays as it is.`,
		play: func(ctx context.Context, s *stage) error {
			return s.fails(ctx, []string{"rego_", "5:"}, "apply", "-f", brokenFile)
		},
	},
	{
		title: "No wish: placed on every cluster that is allowed",
		why:   `The Deployment requires the EU and PCI level 2 and names no cluster. The policy fills in the placement at admission.`,
		play: func(ctx context.Context, s *stage) error {
			if err := s.succeeds(ctx, nil, "apply", "-f", euFile); err != nil {
				return err
			}
			return s.placed(ctx, euWorkload, eu1, eu2)
		},
	},
	{
		title: "A wish that is too wide: narrowed",
		why:   `This one asks for a cluster in the EU and one in the US. It gets the one it may have.`,
		play: func(ctx context.Context, s *stage) error {
			if err := s.succeeds(ctx, nil, "apply", "-f", euAndUSFile); err != nil {
				return err
			}
			return s.placed(ctx, mixedWorkload, eu1)
		},
	},
	{
		title: "A wish that can't be granted: denied",
		why:   `This one asks for the US alone. The message is the policy's own, so that the developer knows what to do.`,
		play: func(ctx context.Context, s *stage) error {
			return s.fails(ctx, []string{"gce-us-east1", eu1, eu2}, "apply", "-f", usFile)
		},
	},
	{
		title: "A workload without requirements: untouched",
		why:   `The policy has nothing to say about it.`,
		play: func(ctx context.Context, s *stage) error {
			if err := s.succeeds(ctx, nil, "apply", "-f", plainFile); err != nil {
				return err
			}
			return s.becomes(ctx, func(text string) error {
				for line := range strings.Lines(text) {
					if strings.HasPrefix(line, plainWorkload) && strings.HasSuffix(strings.TrimSpace(line), "<none>") {
						return nil
					}
				}
				return fmt.Errorf("\n  expected no placement of %s\n  got %s", plainWorkload, text)
			}, "get", "deployments", "-o", "custom-columns=NAME:.metadata.name,PLACEMENT:.metadata.annotations."+preferencesPath)
		},
	},
	{
		title: "The world changes: what must move is moved",
		why: eu2 + ` loses its PCI level. Nobody touches the Deployment: Berth decides anew, moves it, counts it
and says so in an event.`,
		play: func(ctx context.Context, s *stage) error {
			if err := s.succeeds(ctx, nil, "label", profiles, "-n", "fleet", eu2, pciLabel+"-"); err != nil {
				return err
			}
			if err := s.placed(ctx, euWorkload, eu1); err != nil {
				return err
			}
			// Status and events follow the patch a moment later.
			if err := s.waitFor(ctx, atLeastOne, "get", policy, "-o", "jsonpath={.status.remediated}"); err != nil {
				return err
			}
			if err := s.succeeds(ctx, []string{"REMEDIATED"}, "get", policies); err != nil {
				return err
			}
			return s.becomes(ctx, func(text string) error {
				if !strings.Contains(text, "deployment/"+euWorkload) {
					return fmt.Errorf("\n  expected an event on the Deployment\n  got %q", text)
				}
				return nil
			}, "get", "events", "--field-selector=reason=PlacementRemediated,involvedObject.name="+euWorkload)
		},
	},
	{
		title: "The world changes back: what was asked for returns",
		why:   `What the developer asked for was never lost, so the Deployment widens again by itself.`,
		play: func(ctx context.Context, s *stage) error {
			if err := s.succeeds(ctx, nil, "label", profiles, "-n", "fleet", eu2, pciLabel+"=2"); err != nil {
				return err
			}
			return s.placed(ctx, euWorkload, eu1, eu2)
		},
	},
	{
		title: "A priority that needs a quota",
		why: `A LimitedResource says that pods of a class need a quota which covers it. In Kubernetes that takes a file of the
API server. This namespace gets such a quota, the others don't.`,
		play: func(ctx context.Context, s *stage) error {
			for _, args := range [][]string{
				{"apply", "-f", limitFile},
				{"wait", "--for=condition=Ready", "--timeout=60s", "limres/berth-demo-gold"},
				{"apply", "-f", quotaFile},
				{"wait", "--for=condition=Ready", "--timeout=60s", "squota/gold"},
			} {
				if err := s.succeeds(ctx, nil, args...); err != nil {
					return err
				}
			}
			return s.fails(ctx, []string{"insufficient quota to match these scopes: [{PriorityClass In [berth-demo-gold]}]"}, "create", "-n", "fleet", "-f", firstFile)
		},
	},
	{
		title: "No more than the quota allows",
		why:   `The first pod is admitted and charged at once, the second is one too many.`,
		play: func(ctx context.Context, s *stage) error {
			if err := s.succeeds(ctx, []string{"created"}, "create", "-f", firstFile); err != nil {
				return err
			}
			if err := s.fails(ctx, []string{"exceeded quota: gold, requested: pods=1, used: pods=1, limited: pods=1"}, "create", "-f", secondFile); err != nil {
				return err
			}
			return s.succeeds(ctx, []string{"pods: 1/1", "True"}, "get", "squota", "gold")
		},
	},
	{
		title: "Without a policy the API server is open again",
		why:   `The last policy takes the webhook with it, and what was denied before is admitted.`,
		play: func(ctx context.Context, s *stage) error {
			if err := s.succeeds(ctx, nil, "delete", policy); err != nil {
				return err
			}
			if err := s.becomes(ctx, noWebhook, "get", webhooks); err != nil {
				return err
			}
			return s.succeeds(ctx, []string{"deployment.apps/" + usWorkload + " created"}, "apply", "-f", usFile)
		},
	},
}

// noWebhook allows for the webhooks that others registered in a cluster that is not ours.
func noWebhook(text string) error {
	if strings.Contains(text, "berth") {
		return fmt.Errorf("\n  expected no webhook of Berth\n  got %s", text)
	}
	return nil
}

func atLeastOne(text string) error {
	if n, err := strconv.Atoi(text); err != nil || n < 1 {
		return fmt.Errorf("\n  expected a count of 1 or more\n  got %q", text)
	}
	return nil
}

// removeStory deletes what the story created, the policy first: while it is there and the operator is gone, nothing that
// it matches can be changed. The CustomResourceDefinitions and RBAC stay, as after `up`, and so does that of ClusterProfile,
// which may have been there before.
func removeStory(ctx context.Context, k kubectl) error {
	var errs []error
	for _, args := range [][]string{
		{"delete", "--ignore-not-found", policy},
		{"delete", "--ignore-not-found", "-f", plainFile, "-f", euFile, "-f", euAndUSFile, "-f", usFile},
		{"delete", "--ignore-not-found", "-f", quotaFile, "-f", limitFile},
		{"delete", "--ignore-not-found", "--wait=false", "-f", firstFile, "-f", secondFile},
		{"delete", "--ignore-not-found", "-f", clustersFile},
	} {
		if _, err := k.get(ctx, args...); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the demo from the cluster: %w", err)
	}
	return nil
}
