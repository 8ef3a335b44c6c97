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

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/test/controlplane"
)

const (
	// clustersPath is the key of the annotation with the clusters, in kubectl's JSONPath syntax.
	clustersPath = `placement\.berth\.dev/clusters`

	levelProperty     = "demo.berth.dev/pci-level"
	jurisdictionLabel = "demo.berth.dev/jurisdiction"

	eu1 = "gce-europe-west1"
	eu2 = "gce-europe-west3"
	us1 = "gce-us-east1"

	// storyNamespace has the story's workloads, and fleetNamespace its clusters.
	storyNamespace = "berth-demo"
	fleetNamespace = "berth-demo-fleet"
	priorityClass  = "berth-demo-gold"

	crdFile       = "hack/demo/clusterprofile-crd.yaml"
	clustersFile  = "hack/demo/clusters.yaml"
	statusFile    = "hack/demo/clusters-status.yaml"
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
	karmadaFile   = "hack/demo/propagationpolicy-crd.yaml"
	rightsFile    = "config/rbac/delivery/karmada.yaml"
	plainWorkload = "nginx-plain"
	euWorkload    = "nginx-eu"
	mixedWorkload = "nginx-eu-and-us"
	usWorkload    = "nginx-us"

	// policies is the full name of the resource, because fleet managers also have placementpolicies.
	policies    = "placementpolicies.placement.berth.dev"
	policy      = policies + "/eu-pci"
	profiles    = "clusterprofiles.multicluster.x-k8s.io"
	propagation = "propagationpolicies.policy.karmada.io"
	webhooks    = "mutatingwebhookconfigurations"
)

// definitionFiles are the files with reduced CustomResourceDefinitions of other projects. The story uses the real ones if
// the cluster has them.
var definitionFiles = []string{crdFile, karmadaFile}

// act is one step of the story.
type act struct {
	title string
	why   string
	play  func(context.Context, *stage) error
}

// story returns the steps. It installs the missing ones of definitionFiles.
func story(missing []string) []act {
	inventory := append(define(missing, crdFile),
		[]string{"apply", "-f", clustersFile},
		[]string{"apply", "--server-side", "--subresource=status", "-f", statusFile},
		[]string{"get", profiles, "-n", fleetNamespace, "-o",
			`custom-columns=NAME:.metadata.name,JURISDICTION:.metadata.labels.demo\.berth\.dev/jurisdiction,` +
				`PCI:.status.properties[0].value,HEALTHY:.status.conditions[0].status`})
	return slices.Concat(policyStory(inventory), placementStory(), changeStory(), deliveryStory(define(missing, karmadaFile)), quotaStory(),
		[]act{{
			title: "Without a policy the API server is open again",
			why:   `When the last policy is deleted, the webhook goes too, and what was denied before is admitted.`,
			play: func(ctx context.Context, s *stage) error {
				if err := s.succeeds(ctx, nil, "delete", policy); err != nil {
					return err
				}
				if err := s.becomes(ctx, noWebhook, "get", webhooks); err != nil {
					return err
				}
				return s.succeeds(ctx, []string{"deployment.apps/" + usWorkload + " created"}, "apply", "-f", usFile)
			},
		}})
}

// define returns the kubectl commands that install the definitions in file, or none if they are not missing.
func define(missing []string, file string) [][]string {
	if !slices.Contains(missing, file) {
		return nil
	}
	return [][]string{
		{"apply", "-f", file},
		{"wait", "--for=" + controlplane.DefinitionStates[0], "--timeout=60s", "-f", file},
		{"wait", "--for=" + controlplane.DefinitionStates[1], "--timeout=60s", "-f", file},
	}
}

// policyStory returns the steps up to the policy. inventory are the kubectl commands that create the clusters.
func policyStory(inventory [][]string) []act {
	return []act{
		{
			title: "An open API server",
			why: `Berth runs, but no policy exists: no webhook is registered, so nothing is checked and nothing is refused.
A workload that requires the EU and asks for a cluster in the US would be admitted.`,
			play: func(ctx context.Context, s *stage) error {
				if err := s.becomes(ctx, noWebhook, "get", webhooks); err != nil {
					return err
				}
				if err := s.succeeds(ctx, nil, "create", "namespace", storyNamespace); err != nil {
					return err
				}
				return s.succeeds(ctx, []string{"created (server dry run)"}, "apply", "--dry-run=server", "-f", usFile)
			},
		},
		{
			title: "An inventory of clusters",
			why: `Three clusters, as ClusterProfile objects of SIG Multicluster: two in the EU and one in the US, each certified for
PCI level 2. In production, a fleet manager maintains them.`,
			play: func(ctx context.Context, s *stage) error {
				for _, args := range inventory {
					if err := s.succeeds(ctx, nil, args...); err != nil {
						return err
					}
				}
				return nil
			},
		},
		{
			title: "A policy",
			why: `A workload that requires the EU and a PCI level runs only where both hold. Berth finds in
the policy what to replicate.`,
			play: func(ctx context.Context, s *stage) error {
				if err := s.showFile(policyFile); err != nil {
					return err
				}
				for _, args := range [][]string{
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
				if err := s.showFile(brokenFile); err != nil {
					return err
				}
				return s.fails(ctx, []string{"rego_", "5:"}, "apply", "-f", brokenFile)
			},
		},
	}
}

// placementStory returns the steps that place workloads.
func placementStory() []act {
	return []act{
		{
			title: "No requested clusters: placed on every cluster that is allowed",
			why:   `The Deployment requires the EU and PCI level 2 and names no cluster. Berth adds the placement at admission.`,
			play: func(ctx context.Context, s *stage) error {
				if err := s.succeeds(ctx, nil, "apply", "-f", euFile); err != nil {
					return err
				}
				return s.placed(ctx, euWorkload, eu1, eu2)
			},
		},
		{
			title: "Too many requested clusters: narrowed",
			why:   `This one asks for a cluster in the EU and one in the US. It gets the one that is allowed.`,
			play: func(ctx context.Context, s *stage) error {
				if err := s.succeeds(ctx, nil, "apply", "-f", euAndUSFile); err != nil {
					return err
				}
				return s.placed(ctx, mixedWorkload, eu1)
			},
		},
		{
			title: "Only forbidden clusters: denied",
			why:   `This one asks for the US alone. The message tells the developer what is allowed.`,
			play: func(ctx context.Context, s *stage) error {
				return s.fails(ctx, []string{us1, eu1, eu2}, "apply", "-f", usFile)
			},
		},
		{
			title: "A workload without requirements: unchanged",
			why:   `The policy does not match it.`,
			play: func(ctx context.Context, s *stage) error {
				if err := s.succeeds(ctx, nil, "apply", "-f", plainFile); err != nil {
					return err
				}
				return s.becomes(ctx, unplaced,
					"get", "deployments", "-n", storyNamespace, "-o", "custom-columns=NAME:.metadata.name,PLACEMENT:.metadata.annotations."+clustersPath)
			},
		},
	}
}

// changeStory returns the steps that change the clusters.
func changeStory() []act {
	return []act{
		{
			title: "A cluster loses a property: what must move is moved",
			why: eu2 + ` loses its PCI level. No user updates the Deployment: Berth decides it again, patches it, counts it in the
status of the policy, and records an event.`,
			play: func(ctx context.Context, s *stage) error {
				if err := s.succeeds(ctx, nil, setLevel("")...); err != nil {
					return err
				}
				if err := s.placed(ctx, euWorkload, eu1); err != nil {
					return err
				}
				// Status and events are updated shortly after the patch.
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
				}, "get", "events", "-n", storyNamespace, "--field-selector=reason=PlacementRemediated,involvedObject.name="+euWorkload)
			},
		},
		{
			title: "The property returns, and with it the placement",
			why:   `Berth keeps what the developer asked for, so the Deployment is widened again.`,
			play: func(ctx context.Context, s *stage) error {
				if err := s.succeeds(ctx, nil, setLevel("2")...); err != nil {
					return err
				}
				return s.placed(ctx, euWorkload, eu1, eu2)
			},
		},
	}
}

// setLevel returns the kubectl arguments that set the PCI level of the second cluster in the EU. An empty level removes
// it.
func setLevel(level string) []string {
	properties := "[]"
	if level != "" {
		properties = fmt.Sprintf(`[{"name":%q,"value":%q}]`, levelProperty, level)
	}
	return []string{"patch", profiles, eu2, "-n", fleetNamespace, "--subresource=status", "--type=merge", "-p",
		`{"status":{"properties":` + properties + `}}`}
}

// deliveryStory returns the step that delivers placements. definitions are the kubectl commands that install Karmada's
// definitions.
func deliveryStory(definitions [][]string) []act {
	return []act{{
		title: "Delivery: Karmada gets the placement",
		why: `With spec.delivery, Berth keeps a PropagationPolicy for each placed workload, which tells Karmada where to deploy it. Then
` + eu2 + ` leaves the EU, and the PropagationPolicy follows. The demo needs Karmada's definitions, not Karmada itself.`,
		play: func(ctx context.Context, s *stage) error {
			for _, args := range append(definitions,
				[]string{"apply", "-f", rightsFile},
				[]string{"patch", policy, "--type=merge", "-p", `{"spec":{"delivery":{"karmada":{}}}}`},
			) {
				if err := s.succeeds(ctx, nil, args...); err != nil {
					return err
				}
			}
			if err := s.delivered(ctx, euWorkload, eu1, eu2); err != nil {
				return err
			}
			if err := s.succeeds(ctx, nil, "label", profiles, eu2, "-n", fleetNamespace, "--overwrite", jurisdictionLabel+"=us"); err != nil {
				return err
			}
			return s.delivered(ctx, euWorkload, eu1)
		},
	}}
}

func quotaStory() []act {
	return []act{
		{
			title: "A priority that needs a quota",
			why: `A LimitedResource says that pods of a priority class need a quota that covers it. In Kubernetes that takes a file of
the API server. The namespace ` + storyNamespace + ` gets such a quota, the others don't.`,
			play: func(ctx context.Context, s *stage) error {
				for _, args := range [][]string{
					{"apply", "-f", limitFile},
					{"wait", "--for=condition=Ready", "--timeout=60s", "limres/" + priorityClass},
					{"apply", "-n", storyNamespace, "-f", quotaFile},
					{"wait", "-n", storyNamespace, "--for=condition=Ready", "--timeout=60s", "squota/gold"},
				} {
					if err := s.succeeds(ctx, nil, args...); err != nil {
						return err
					}
				}
				return s.fails(ctx, []string{"insufficient quota to match these scopes: [{PriorityClass In [" + priorityClass + "]}]"}, "create", "-n",
					fleetNamespace, "-f", firstFile)
			},
		},
		{
			title: "No more than the quota allows",
			why:   `The first pod is admitted and charged at once, the second is one too many.`,
			play: func(ctx context.Context, s *stage) error {
				if err := s.succeeds(ctx, []string{"created"}, "create", "-n", storyNamespace, "-f", firstFile); err != nil {
					return err
				}
				if err := s.fails(ctx, []string{"exceeded quota: gold, requested: pods=1, used: pods=1, limited: pods=1"}, "create", "-n",
					storyNamespace, "-f", secondFile); err != nil {
					return err
				}
				return s.succeeds(ctx, []string{"pods: 1/1", "True"}, "get", "squota", "-n", storyNamespace, "gold")
			},
		},
	}
}

// noWebhook returns an error if Berth has a webhook. A user's cluster may have webhooks of other programs.
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

// unplaced returns an error unless the table lists the plain workload without a placement.
func unplaced(text string) error {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, plainWorkload) && strings.HasSuffix(strings.TrimSpace(line), "<none>") {
			return nil
		}
	}
	return fmt.Errorf("\n  expected no placement of %s\n  got %s", plainWorkload, text)
}

// storyObjects are the arguments with which kubectl get and delete refer to the story's objects. They omit the policy
// and the CustomResourceDefinitions. All other objects are in the namespaces.
var storyObjects = []string{
	"namespace/" + storyNamespace, "namespace/" + fleetNamespace, "priorityclass/" + priorityClass, "clusterrole/" + deliveryRole,
}

// missingDefinitions returns those of definitionFiles of which the cluster has no definition.
func missingDefinitions(ctx context.Context, k kubectl) ([]string, error) {
	var missing []string
	for _, file := range definitionFiles {
		found, err := k.get(ctx, "get", "--ignore-not-found", "-o", "name", "-f", file)
		if err != nil {
			return nil, err
		}
		if found == "" {
			missing = append(missing, file)
		}
	}
	return missing, nil
}

// removeStory deletes the story's objects from a user's cluster. It deletes the policy first: while the policy exists
// and the operator does not run, the API server denies objects that the policy matches. definitions are the files with
// the CustomResourceDefinitions that the story created.
func removeStory(ctx context.Context, k kubectl, definitions []string) error {
	commands := [][]string{
		{"delete", "--ignore-not-found", policy},
		{"delete", "--ignore-not-found", "limres/" + priorityClass},
		deleteObjects(storyObjects),
	}
	for _, file := range definitions {
		commands = append(commands, []string{"delete", "--ignore-not-found", removeTimeout, "-f", file})
	}
	var errs []error
	for _, args := range commands {
		if _, err := k.get(ctx, args...); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the demo from the cluster: %w", err)
	}
	return nil
}
