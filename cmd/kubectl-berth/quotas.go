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
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/simulation"
)

const quotasLong = `Show the quotas that limit a namespace, and how much of them is left: its ScopedQuotas, and the ClusterScopedQuotas that it shares with
other namespaces. The command reads with your rights, and says what you may not read.`

const quotasExample = `  # What is left for the namespace shop?
  kubectl berth quotas -n shop`

// quotasOptions are the flags of the quotas command.
type quotasOptions struct {
	genericiooptions.IOStreams
	flags  *genericclioptions.ConfigFlags
	output string
}

func newQuotas(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &quotasOptions{IOStreams: streams, flags: flags}
	cmd := &cobra.Command{
		Use:     "quotas",
		Short:   "Show the quotas that limit a namespace",
		Long:    quotasLong,
		Example: quotasExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format: json or yaml. Without it, a table.")
	return cmd
}

// namespaceQuotas are the quotas of a namespace.
type namespaceQuotas struct {
	Namespace string          `json:"namespace"`
	Amounts   []limitedAmount `json:"amounts"`
	// Missing says what the user may not read.
	Missing []string `json:"missing,omitempty"`
}

// limitedAmount is what a quota has of a resource.
type limitedAmount struct {
	Quota    string           `json:"quota"`
	Mode     placementv1.Mode `json:"mode"`
	Resource string           `json:"resource"`
	// Used is what all namespaces of the quota use. UsedHere is what this one uses of a quota that it shares; "" for other quotas, or if that
	// is not known.
	Used     string `json:"used"`
	UsedHere string `json:"usedHere,omitempty"`
	Hard     string `json:"hard"`
	Left     string `json:"left"`
}

func (o *quotasOptions) run(ctx context.Context) error {
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return fmt.Errorf("finding the namespace: %w", err)
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	out := &namespaceQuotas{Namespace: namespace, Amounts: []limitedAmount{}}
	if err := out.read(ctx, client); err != nil {
		return err
	}
	if o.output != "" {
		return printStructured(o.Out, o.output, out)
	}
	p := newPrinter(o.Out)
	printQuotas(p, out)
	return p.err
}

func printQuotas(p *printer, n *namespaceQuotas) {
	if len(n.Amounts) == 0 {
		p.line("No quota that you may read limits namespace %s.", n.Namespace)
	} else {
		var rows [][]string
		for _, a := range n.Amounts {
			rows = append(rows, []string{a.Quota, string(a.Mode), a.Resource, a.Used, cmp.Or(a.UsedHere, a.Used), a.Hard, a.Left})
		}
		p.table([]string{"QUOTA", "MODE", "RESOURCE", "USED", "HERE", "HARD", "LEFT"}, rows)
	}
	for _, text := range n.Missing {
		p.line("%s", text)
	}
}

// read reads the quotas.
func (n *namespaceQuotas) read(ctx context.Context, client dynamic.Interface) error {
	var of labels.Set
	namespace, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, n.Namespace, metav1.GetOptions{})
	switch {
	case err == nil:
		// A namespace has the label with its name.
		of = namespace.GetLabels()
	case !apierrors.IsForbidden(err):
		return err
	}
	for _, kind := range []struct {
		plural, namespace string
		empty             func() placementv1.Quota
	}{
		{"scopedquotas", n.Namespace, func() placementv1.Quota { return &placementv1.ScopedQuota{} }},
		{"clusterscopedquotas", "", func() placementv1.Quota { return &placementv1.ClusterScopedQuota{} }},
	} {
		list, err := client.Resource(placementv1.GroupVersion.WithResource(kind.plural)).Namespace(kind.namespace).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err) && kind.namespace == "":
			n.Missing = append(n.Missing, "You may not list clusterscopedquotas, so those that the namespace shares are missing. An administrator can bind the "+
				"ClusterRole berth-clusterscopedquota-viewer-role to you; until then, a denial names the quota and its amounts.")
			continue
		case apierrors.IsForbidden(err):
			n.Missing = append(n.Missing, fmt.Sprintf("You may not list scopedquotas in namespace %s, so they are missing: ask for the right to list them.",
				n.Namespace))
			continue
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			return fmt.Errorf("the API server has no %s: install Berth, or check the kubeconfig's context", kind.plural)
		case err != nil:
			return fmt.Errorf("listing %s: %w", kind.plural, err)
		}
		for i := range list.Items {
			q := kind.empty()
			if err := numeral.FromUnstructured(list.Items[i].Object, q); err != nil {
				return fmt.Errorf("%s: %w", simulation.Describe(&list.Items[i]), err)
			}
			if n.isLimitedBy(q, of) {
				n.add(list.Items[i].GetKind(), q)
			}
		}
	}
	return nil
}

// isLimitedBy reports whether a quota counts the namespace with the labels of. If of is nil, because the user may not read them, the
// namespace must be one of those that the status of the quota lists.
func (n *namespaceQuotas) isLimitedBy(q placementv1.Quota, of labels.Set) bool {
	shared, ok := q.(*placementv1.ClusterScopedQuota)
	if !ok {
		return true
	}
	selector, err := quota.NamespaceSelector(shared.Spec.NamespaceSelector)
	if err != nil || of == nil {
		return slices.ContainsFunc(shared.Status.Namespaces, func(u placementv1.NamespaceUsage) bool { return u.Namespace == n.Namespace })
	}
	return selector.Matches(of)
}

// add adds the amounts of a quota.
func (n *namespaceQuotas) add(kind string, q placementv1.Quota) {
	spec, status := q.QuotaSpec(), q.QuotaStatus()
	here := map[corev1.ResourceName]string{}
	if shared, ok := q.(*placementv1.ClusterScopedQuota); ok {
		for _, u := range shared.Status.Namespaces {
			for name, used := range u.Used {
				if u.Namespace == n.Namespace {
					here[name] = used.String()
				}
			}
		}
		for name := range spec.Hard {
			// A namespace without usage is not listed, unless there are too many to list.
			if here[name] == "" && len(shared.Status.Namespaces) < placementv1.MaxNamespaces {
				here[name] = "0"
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
		hard, used := spec.Hard[name], status.Used[name]
		left := hard.DeepCopy()
		left.Sub(used)
		n.Amounts = append(n.Amounts, limitedAmount{
			Quota: kind + " " + q.GetName(), Mode: cmp.Or(spec.Mode, placementv1.ModeEnforce), Resource: string(name), Used: used.String(),
			UsedHere: here[name], Hard: hard.String(), Left: left.String(),
		})
	}
}
