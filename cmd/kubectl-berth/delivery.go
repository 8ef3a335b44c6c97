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
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/simulation"
)

const deliveryRenderLong = `Print the objects of multi-cluster systems that Berth applies for the placement of objects, as YAML documents.
They depend on the decision of the policies and on their spec.delivery. Objects that Berth delivers nothing for are listed on the standard
error.

The command decides the object itself, by the same code as Berth, from what the API server has now. It reads with your rights and changes
nothing. The systems need not be installed. With --filename it renders for objects that do not exist yet. Such objects have no UID, so the
owner references in the output have none either.`

const deliveryRenderExample = `  # What does Berth apply for the Deployment web?
  kubectl berth delivery render deployment/web -n shop

  # What would it apply for this manifest, without a cluster?
  kubectl berth delivery render -f web.yaml --from policies/,clusters.yaml`

// deliveryRenderOptions are the flags of the delivery render command.
type deliveryRenderOptions struct {
	objectFlags
}

func newDelivery(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{Use: "delivery", Short: "Work with the objects that carry placed objects to their clusters"}
	cmd.AddCommand(newDeliveryRender(flags, streams))
	return cmd
}

func newDeliveryRender(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &deliveryRenderOptions{objectFlags: objectFlags{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}}
	cmd := &cobra.Command{
		Use:     "render (TYPE/NAME | -f FILENAME)",
		Short:   "Print the objects that Berth applies to deliver an object to its clusters",
		Long:    deliveryRenderLong,
		Example: deliveryRenderExample,
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.ValidArgsFunction = o.completeObjects
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *deliveryRenderOptions) run(ctx context.Context, args []string) error {
	s, objects, err := o.selected(ctx, args)
	if err != nil {
		return err
	}
	var failures []error
	for _, content := range objects {
		object, err := s.NewObject(content, len(args) > 0)
		if err != nil {
			return err
		}
		if err := o.render(ctx, s, object); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", subjectOf(content), err))
		}
	}
	return errors.Join(failures...)
}

// render prints the objects that Berth applies to deliver one object or, on the standard error, why it applies none. If an enforced policy
// denies the object, or can't decide it, that is an error.
func (o *deliveryRenderOptions) render(ctx context.Context, s *simulation.Simulation, object simulation.Object) error {
	outcome, err := s.Decide(ctx, object)
	if err != nil {
		return err
	}
	skip := func(why string) error {
		p := newPrinter(o.ErrOut)
		p.line("%s: %s", subjectOf(object.Content), why)
		return p.err
	}
	if outcome.Object == nil {
		return skip("no policy matches the object, so nothing is delivered")
	}
	if err := refusal(outcome.Verdicts); err != nil {
		return err
	}
	placed := outcome.Object.DeepCopy()
	// The namespace of a manifest may be missing.
	placed.SetNamespace(object.Namespace)
	decision, ok, err := delivery.DecisionOf(placed)
	if err != nil {
		return err
	}
	if !ok || s.Undelivered(object, outcome) {
		return skip(withoutClusters(clustersWait(s, object, outcome.Verdicts)))
	}
	policies, err := s.Matching(ctx, simulation.Object{Resource: object.Resource, Namespace: object.Namespace, Content: placed, Exists: true})
	if err != nil {
		return err
	}
	none := "no policy that is enforced for the object has spec.delivery, so nothing is delivered"
	for _, controller := range delivery.ControllersOf(placed) {
		of, err := s.MatchingController(ctx, controller)
		if err != nil {
			return err
		}
		before := len(policies)
		if policies = delivery.WithoutDeliverersOf(controller.GroupKind, of, policies); len(policies) < before {
			none = fmt.Sprintf("%s %s, which controls the object, is delivered in its place", controller.Kind, controller.Name)
		}
	}
	routes, names := delivery.RoutesOf(policies, placed.GroupVersionKind().GroupKind())
	if len(routes) == 0 {
		return skip(none)
	}
	var delivered []delivery.Delivered
	for _, route := range routes {
		if route.References && decision.Objects == nil {
			if decision.Objects, err = s.Claims(ctx); err != nil {
				return err
			}
		}
		rendered, err := route.Render(delivery.ObjectOf(placed), decision, route.Spec)
		if err != nil {
			return fmt.Errorf("%s: %w", route.Title, err)
		}
		delivered = append(delivered, rendered...)
	}
	if len(delivered) == 0 {
		return skip("the decided list of clusters is empty, so nothing is delivered, and what was delivered before is withdrawn")
	}
	return o.print(fmt.Sprintf("%s: clusters %s; policies %s%s", subjectOf(placed), cmp.Or(strings.Join(decision.Clusters, ", "), "none"),
		strings.Join(names, ", "), clustersWait(s, object, outcome.Verdicts)), delivered)
}

// withoutClusters says why nothing is delivered for an object without a list of clusters: it waits for the list, or no policy decides it.
// waits is what clustersWait returns for the object.
func withoutClusters(waits string) string {
	if waits != "" {
		return "nothing is delivered yet" + waits
	}
	return "no policy in mode Enforce decides the object's clusters, so nothing is delivered"
}

// clustersWait says what an existing object waits for before it gets the clusters that policies decide, for appending to a message, such as
// "; the object waits for an approval"; "" if it has them, gets them at once, or does not exist yet.
func clustersWait(s *simulation.Simulation, object simulation.Object, verdicts []*placement.Verdict) string {
	if !object.Exists {
		return ""
	}
	for _, v := range verdicts {
		changes := func(c placement.Change) bool {
			return c.Immutable == "" && (c.ChangesClusters() || c.Key == placementv1.ClustersAnnotation)
		}
		if v.Policy.Mode == placementv1.ModeEnforce && v.Err == nil && slices.ContainsFunc(v.Changes, changes) {
			if text := s.Waits(v.Policy, object.Namespace).String(); text != "" {
				return "; the object waits " + text
			}
		}
	}
	return ""
}

// refusal returns why the object is not placed: an enforced policy denies it, or can't decide it; nil if none does.
func refusal(verdicts []*placement.Verdict) error {
	for _, v := range verdicts {
		switch {
		case v.Policy.Mode != placementv1.ModeEnforce:
		case v.Err != nil:
			return fmt.Errorf("PlacementPolicy %s can't decide the object: %w", v.Policy.Name, v.Err)
		case len(v.Decision.Errors) > 0:
			return fmt.Errorf("PlacementPolicy %s denies the object: %s", v.Policy.Name, strings.Join(v.Decision.Errors, "; "))
		}
	}
	return nil
}

// print writes the delivered objects as YAML documents, with the comment above the first one.
func (o *deliveryRenderOptions) print(comment string, delivered []delivery.Delivered) error {
	for i, d := range delivered {
		text, err := encodeYAML(d.Object.Object)
		if err != nil {
			return err
		}
		p := newPrinter(o.Out)
		p.line("---")
		if i == 0 {
			p.line("# %s", comment)
		}
		for _, text := range []string{d.Note, d.Dangling} {
			if text != "" {
				p.line("# %s", text)
			}
		}
		p.document(text)
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// subjectOf returns the kind, the namespace, and the name of an object, such as "Deployment shop/web".
func subjectOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
