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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/simulation"
)

const quotasLong = `Show the quotas that limit a namespace, and how much of them is left: its ScopedQuotas, and the ClusterScopedQuotas
that it shares with other namespaces. USED is what all namespaces of the quota use, and HERE what this one uses of it; "unknown" means
that Berth has not counted it, or that the quota has too many namespaces to list. The command reads with your rights, and says what you
may not read.`

const quotasExample = `  # What is left for the namespace shop?
  kubectl berth quotas -n shop`

// quotasOptions are the flags of the quotas command.
type quotasOptions struct {
	genericiooptions.IOStreams
	flags  *genericclioptions.ConfigFlags
	output string
	// berthNamespace is Berth's own namespace, in which no quota counts.
	berthNamespace string
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
	cmd.Flags().StringVar(&o.berthNamespace, "berth-namespace", "berth-system", "Berth's own namespace. No quota limits it.")
	return cmd
}

// namespaceQuotas are the quotas of a namespace.
type namespaceQuotas struct {
	Namespace string          `json:"namespace"`
	Amounts   []limitedAmount `json:"amounts"`
	// Missing are sentences about quotas that are not in Amounts: those that the user may not read, and those that do not limit the namespace
	// because it is Berth's own or kube-system.
	Missing []string `json:"missing,omitempty"`
}

// limitedAmount is how much of a resource a quota allows, and how much is used. An amount that is not known is "".
type limitedAmount struct {
	Quota    string           `json:"quota"` // the kind and name, such as "ScopedQuota gold"
	Mode     placementv1.Mode `json:"mode"`
	Resource string           `json:"resource"`
	Used     string           `json:"used,omitempty"`     // by all namespaces of the quota
	UsedHere string           `json:"usedHere,omitempty"` // by this namespace; equal to Used for a ScopedQuota
	Hard     string           `json:"hard"`               // the limit
	Left     string           `json:"left,omitempty"`     // Hard minus Used; negative if more is used
}

func (o *quotasOptions) run(ctx context.Context) error {
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
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
	if err := out.read(ctx, client, o.berthNamespace); err != nil {
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
	switch {
	case len(n.Amounts)+len(n.Missing) == 0:
		p.line("No ScopedQuota or ClusterScopedQuota limits namespace %s.", n.Namespace)
	case len(n.Amounts) == 0:
		p.line("No quota that you may read limits namespace %s.", n.Namespace)
	default:
		var rows [][]string
		const unknown = "unknown"
		for _, a := range n.Amounts {
			rows = append(rows, []string{
				a.Quota, string(a.Mode), a.Resource, cmp.Or(a.Used, unknown), cmp.Or(a.UsedHere, unknown), a.Hard, cmp.Or(a.Left, unknown),
			})
		}
		p.table([]string{"QUOTA", "MODE", "RESOURCE", "USED", "HERE", "HARD", "LEFT"}, rows)
	}
	for _, text := range n.Missing {
		p.line("%s", text)
	}
}

// read adds the quotas that limit the namespace to n: ScopedQuotas and ClusterScopedQuotas, but only ScopedQuotas for kube-system, and none
// for own, Berth's own namespace; n.Missing says so. What the user may not read is no error, and named in n.Missing. It is an error if the
// namespace does not exist.
func (n *namespaceQuotas) read(ctx context.Context, client dynamic.Interface, own string) error {
	var of labels.Set
	namespace, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, n.Namespace, metav1.GetOptions{})
	switch {
	case err == nil:
		// A namespace has the label with its name.
		of = namespace.GetLabels()
	case !apierrors.IsForbidden(err):
		return err
	}
	// Neither kind counts in Berth's own namespace, and ClusterScopedQuotas not in kube-system, either.
	if n.Namespace == own {
		n.Missing = append(n.Missing, fmt.Sprintf("Berth runs in namespace %s, so no quota limits it.", own))
		return nil
	}
	if err := n.readScoped(ctx, client); err != nil {
		return err
	}
	if match.IsProtectedNamespace(n.Namespace, own) {
		n.Missing = append(n.Missing, fmt.Sprintf("No ClusterScopedQuota limits namespace %s: a limit could stop parts of Kubernetes that the "+
			"cluster needs.", n.Namespace))
		return nil
	}
	return n.readShared(ctx, client, of)
}

// readScoped adds the ScopedQuotas of the namespace, or a sentence to n.Missing if the user may not list them.
func (n *namespaceQuotas) readScoped(ctx context.Context, client dynamic.Interface) error {
	items, err := listQuotas(ctx, client, "scopedquotas", n.Namespace)
	if apierrors.IsForbidden(err) {
		n.Missing = append(n.Missing, fmt.Sprintf("You may not list scopedquotas in namespace %s, so they are missing: ask for the right to "+
			"list them.", n.Namespace))
		return nil
	}
	if err != nil {
		return err
	}
	for i := range items {
		q := &placementv1.ScopedQuota{}
		if err := numeral.FromUnstructured(items[i].Object, q); err != nil {
			return fmt.Errorf("%s: %w", simulation.Describe(&items[i]), err)
		}
		n.add(items[i].GetKind(), q, func(name corev1.ResourceName) (resource.Quantity, bool) { return q.Status.Used[name], true })
	}
	return nil
}

// readShared adds the ClusterScopedQuotas that select the namespace. Its labels, of, are nil if the user may not read them. n.Missing gets
// a sentence if the user may not list the quotas, or if it is not known of some whether they select the namespace.
func (n *namespaceQuotas) readShared(ctx context.Context, client dynamic.Interface, of labels.Set) error {
	items, err := listQuotas(ctx, client, "clusterscopedquotas", "")
	if apierrors.IsForbidden(err) {
		n.Missing = append(n.Missing, "You may not list clusterscopedquotas, so those that the namespace shares are missing. An administrator "+
			"can bind the ClusterRole whose name ends with clusterscopedquota-viewer-role to you; until then, a denial names the quota and "+
			"its amounts.")
		return nil
	}
	if err != nil {
		return err
	}
	undecided := 0
	for i := range items {
		q := &placementv1.ClusterScopedQuota{}
		if err := numeral.FromUnstructured(items[i].Object, q); err != nil {
			return fmt.Errorf("%s: %w", simulation.Describe(&items[i]), err)
		}
		switch selects, known := n.isSelectedBy(q, of); {
		case !known:
			undecided++
		case selects:
			n.add(items[i].GetKind(), q, func(name corev1.ResourceName) (resource.Quantity, bool) { return n.usageIn(q, name) })
		}
	}
	if undecided > 0 {
		n.Missing = append(n.Missing, fmt.Sprintf("You may not get namespace %s, so its labels are unknown. ClusterScopedQuotas that may select "+
			"it by them, and are missing: %d. Ask for the right to get the namespace.", n.Namespace, undecided))
	}
	return nil
}

// listQuotas lists the quotas of a type with a plural name, such as scopedquotas, in a namespace, which is "" for a cluster-scoped type. If
// the user may not list them, it returns the API server's error unchanged. Other errors are wrapped, or tell to install Berth if the API
// server does not serve the type.
func listQuotas(ctx context.Context, client dynamic.Interface, plural, namespace string) ([]unstructured.Unstructured, error) {
	list, err := client.Resource(placementv1.GroupVersion.WithResource(plural)).Namespace(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, err
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the API server has no %s: install Berth, or check the kubeconfig's context", plural)
	case err != nil:
		return nil, fmt.Errorf("listing %s: %w", plural, err)
	}
	return list.Items, nil
}

// isSelectedBy reports whether a quota selects the namespace, whose labels are of. If the labels are unknown, of is nil, and known is false
// unless the quota selects all namespaces or its status lists this one. A quota with an invalid selector selects none.
func (n *namespaceQuotas) isSelectedBy(q *placementv1.ClusterScopedQuota, of labels.Set) (selects, known bool) {
	selector, err := quota.NamespaceSelector(q.Spec.NamespaceSelector)
	switch {
	case err != nil:
		// Such a quota is not in force.
		return false, true
	case selector.Empty():
		return true, true
	case of != nil:
		return selector.Matches(of), true
	}
	listed := slices.ContainsFunc(q.Status.Namespaces, n.isNamespaceOf)
	return listed, listed
}

// isNamespaceOf reports whether a usage is that of the namespace.
func (n *namespaceQuotas) isNamespaceOf(u placementv1.NamespaceUsage) bool {
	return u.Namespace == n.Namespace
}

// usageIn returns how much of a resource, name, the namespace uses of a quota that it shares. known is false if the status of the quota has
// too many namespaces to list this one.
func (n *namespaceQuotas) usageIn(q *placementv1.ClusterScopedQuota, name corev1.ResourceName) (used resource.Quantity, known bool) {
	listed := q.Status.Namespaces
	if i := slices.IndexFunc(listed, n.isNamespaceOf); i >= 0 {
		return listed[i].Used[name], true
	}
	// The status lists the first namespaces with usage, ordered by name.
	return used, len(listed) < placementv1.MaxNamespaces || n.Namespace < listed[len(listed)-1].Namespace
}

// add adds an amount for each resource in spec.hard of a quota, without usage if Berth has not counted the resource for the quota's current
// generation. It calls here, which returns what the namespace uses of a resource, only for counted ones; known is false if the status of
// the quota does not tell.
func (n *namespaceQuotas) add(kind string, q placementv1.Quota, here func(corev1.ResourceName) (used resource.Quantity, known bool)) {
	spec, status := q.QuotaSpec(), q.QuotaStatus()
	for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
		hard := spec.Hard[name]
		amount := limitedAmount{Quota: kind + " " + q.GetName(), Mode: cmp.Or(spec.Mode, placementv1.ModeEnforce),
			Resource: string(name), Hard: hard.String()}
		// What was counted for an earlier spec may be something else.
		if used, counted := status.Used[name]; counted && status.ObservedGeneration == q.GetGeneration() {
			left := hard.DeepCopy()
			left.Sub(used)
			amount.Used, amount.Left = used.String(), left.String()
			if usedHere, known := here(name); known {
				amount.UsedHere = usedHere.String()
			}
		}
		n.Amounts = append(n.Amounts, amount)
	}
}
