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
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/apischema"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/watches"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
	"github.com/berth-dev/berth/webhooks/quotaspec"
)

const checkLong = `Check policies, quotas, and LimitedResources in files without applying them. The errors and warnings are those that the
API server and Berth's webhooks return when the objects are applied. The files are also compared with each other. For each policy the
command also prints what it reads and the rights that Berth needs for it.

Without --from or --live the command knows the types of Kubernetes itself with their fields, and those of the objects and
CustomResourceDefinitions in the files. --live checks against the cluster of the kubeconfig, also the fields of custom resources.

The exit code is 0 if no object has an error, and 1 otherwise. With --strict warnings count as errors.`

const checkExample = `  # Policies in a directory, without a cluster
  kubectl berth check -f policies/

  # Against what the cluster serves
  kubectl berth check -f policy.yaml --live --strict`

// checkOptions are the flags of the check command.
type checkOptions struct {
	simulationFlags
	files resource.FilenameOptions
	// live checks against the types and objects of the cluster of the kubeconfig. strict counts warnings as errors.
	live, strict bool
	output       string
}

func newCheck(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &checkOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}
	cmd := &cobra.Command{
		Use:     "check -f FILENAME",
		Short:   "Check policies and quotas without applying them",
		Long:    checkLong,
		Example: checkExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	f := cmd.Flags()
	f.StringSliceVarP(&o.files.Filenames, "filename", "f", nil, "Files, directories or - with policies and quotas.")
	f.BoolVarP(&o.files.Recursive, "recursive", "R", false, "Read directories of --filename recursively.")
	f.BoolVar(&o.live, "live", false, "Compare with the types and objects of the cluster that the kubeconfig names.")
	f.BoolVar(&o.strict, "strict", false, "Treat warnings as errors.")
	f.StringVarP(&o.output, "output", "o", "", "Output format: json or yaml. Without it, text.")
	cmd.MarkFlagsMutuallyExclusive("live", "from")
	return cmd
}

// checked is the result of checking one object.
type checked struct {
	Policy   string   `json:"policy,omitempty"` // the name of a PlacementPolicy; "" for other objects
	Object   string   `json:"object,omitempty"` // the kind and name of an object that is no PlacementPolicy, such as "ScopedQuota shop/gold"
	Errors   []string `json:"errors,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Reads are the types that a policy reads, with the fields; none for other objects, and for a policy with errors.
	Reads []readType `json:"reads,omitempty"`
}

// readType is a type that a policy reads, and the fields that it reads, in the output of the check command. Berth needs the right to list
// and watch the type, which the command does not check.
type readType struct {
	Group    string   `json:"group"`
	Resource string   `json:"resource"`
	Fields   []string `json:"fields"`
}

func (o *checkOptions) run(ctx context.Context) error {
	if len(o.files.Filenames) == 0 {
		return errors.New("name the files with policies: -f policy.yaml")
	}
	objects, err := o.manifests(&o.files)
	if err != nil {
		return err
	}
	c, err := o.checker(ctx, objects)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(objects), func(obj *unstructured.Unstructured) bool {
		return obj.GroupVersionKind().Group != placementv1.GroupVersion.Group
	})
	results := make([]checked, len(own))
	for i, obj := range own {
		results[i] = c.check(ctx, obj)
	}
	warnOfReplaced(results, own)
	if len(results) == 0 {
		return fmt.Errorf("the files contain no object of %s: its kinds are %s", placementv1.GroupVersion, strings.Join(apischema.Kinds(), ", "))
	}
	if o.output != "" {
		err = printStructured(o.Out, o.output, results)
	} else {
		p := newPrinter(o.Out)
		printChecked(p, results)
		err = p.err
	}
	if err != nil {
		return err
	}
	what := "policies"
	if slices.ContainsFunc(results, func(r checked) bool { return r.Object != "" }) {
		what = "objects"
	}
	bad := func(r checked) bool { return len(r.Errors) > 0 || o.strict && len(r.Warnings) > 0 }
	if n := len(slices.DeleteFunc(slices.Clone(results), func(r checked) bool { return !bad(r) })); n > 0 {
		return fmt.Errorf("%d of %d %s have mistakes, see above", n, len(results), what)
	}
	return nil
}

// checker checks objects of Berth's API: policies, quotas, and LimitedResources.
type checker struct {
	cluster  simulation.Cluster
	policies *policyvalidator.Validator
	quotas   *quotaspec.Handler
}

// checker returns the checker for the objects. With --live or --from, it compares them with each other and with the cluster. Otherwise, it
// compares only policies with each other, and knows the types of Kubernetes itself and those of the objects, also of
// CustomResourceDefinitions among them.
func (o *checkOptions) checker(ctx context.Context, objects []*unstructured.Unstructured) (*checker, error) {
	options, inventories, err := o.settings()
	if err != nil {
		return nil, err
	}
	if o.live || len(o.from) > 0 {
		cluster, _, err := o.cluster(ctx)
		if err != nil {
			return nil, err
		}
		applied := newAfterApply(ctx, cluster, objects)
		policies := completeValidator(ctx, cluster, options)
		compareWith(ctx, policies, applied)
		return &checker{cluster, policies, completeQuotaSpecs(ctx, applied, options)}, nil
	}
	// Directories also have files of other tools, without objects.
	others := slices.DeleteFunc(slices.Clone(objects), func(obj *unstructured.Unstructured) bool {
		return obj.GroupVersionKind().Group == placementv1.GroupVersion.Group || obj.GetName() == ""
	})
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), inventories, others...)
	if err != nil {
		return nil, err
	}
	policies := newValidator(cluster, options)
	policies.Policies = newAfterApply(ctx, cluster, objects).Policies
	return &checker{cluster, policies, newQuotaSpecs(cluster, options)}, nil
}

// check checks an object of Berth's group. A kind or version that Berth does not have is an error in the result.
func (c *checker) check(ctx context.Context, obj *unstructured.Unstructured) checked {
	switch kind := obj.GetKind(); {
	case obj.GetAPIVersion() != placementv1.GroupVersion.String() || !slices.Contains(apischema.Kinds(), kind):
		return checked{Object: simulation.Describe(obj), Errors: []string{
			fmt.Sprintf("there is no kind %s in %s: the kinds of %s are %s", kind, obj.GetAPIVersion(), placementv1.GroupVersion,
				strings.Join(apischema.Kinds(), ", ")),
		}}
	case kind == "PlacementPolicy":
		return checkPolicy(ctx, c.cluster, c.policies, obj)
	default:
		return checkQuota(ctx, c.cluster, c.quotas, obj)
	}
}

// newValidator returns the webhook's validator of policies. Of the cluster, it knows only the types that are served, with their schemas and
// scale subresources, and no objects.
func newValidator(cluster simulation.Cluster, options simulation.Options) *policyvalidator.Validator {
	files, isStatic := cluster.(*simulation.Static)
	return &policyvalidator.Validator{
		Checker: embedded.New(embedded.NewData(), embedded.Options{Predicates: options.Predicates}), OwnNamespace: options.OwnNamespace,
		ClusterPredicates: options.Predicates.NamesOf(predicates.Clusters), Templates: options.Templates,
		Catalog: cluster.Catalog(), Scales: scalesOf{cluster}, Types: typesOf(cluster), CatalogIsPartial: isStatic && !files.FromSnapshot(),
	}
}

// typesOf returns the type checker of policies for a cluster. It knows the schemas that the API server publishes or, for files other than a
// snapshot, those of Kubernetes itself; for a snapshot, none. It returns nil for another implementation of simulation.Cluster.
func typesOf(cluster simulation.Cluster) whatif.Types {
	if c, ok := cluster.(interface{ TypeChecker() *schemas.Checker }); ok {
		return c.TypeChecker()
	}
	return nil
}

// completeValidator returns the webhook's validator of policies, which also compares them with what compareWith names and, if the cluster
// is files other than a snapshot, with the objects that the policies match. A cluster that does not serve policies has no policies and
// quotas to compare with.
func completeValidator(ctx context.Context, cluster simulation.Cluster, options simulation.Options) *policyvalidator.Validator {
	out := newValidator(cluster, options)
	compareWith(ctx, out, cluster)
	if files, ok := cluster.(*simulation.Static); ok && !files.FromSnapshot() {
		// A snapshot has only the objects that its policies match, and an API server has too many.
		out.Objects = func(ctx context.Context, resource schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
			return files.List(ctx, resource, nil)
		}
	}
	if _, served := cluster.Catalog().Exact(placementv1.GroupVersion.WithResource("placementpolicies")); !served {
		out.Policies, out.Quotas = nil, nil
	}
	return out
}

// compareWith has a validator of policies compare them with what exists in a cluster: namespaces (if any are known), clusters and their
// scores, nodes, priority classes, other policies, quotas, and LimitedResources.
func compareWith(ctx context.Context, v *policyvalidator.Validator, cluster simulation.Cluster) {
	if namespaces := (namespacesOf{cluster}); namespaces.known(ctx) {
		v.Namespaces = namespaces
	}
	v.Clusters, v.Nodes, v.PriorityClasses = clustersOf{cluster}, nodesOf{cluster}, priorityClassesOf(cluster)
	quotas := quotasOf{cluster: cluster}
	v.Scores, v.Policies, v.Quotas = scoresOf{cluster}, cluster.Policies, &watches.Quotas{Cache: quotas, Live: quotas}
}

// checkPolicy returns the errors and warnings with which the API server and Berth's webhook would answer if a policy was created and,
// unless there are errors, what the policy reads.
func checkPolicy(ctx context.Context, cluster simulation.Cluster, v *policyvalidator.Validator, obj *unstructured.Unstructured) checked {
	out := checked{Policy: obj.GetName()}
	p, mistakes := decodePolicy(ctx, obj)
	if out.Errors = mistakes; len(mistakes) > 0 {
		return out
	}
	warnings, err := v.ValidateCreate(ctx, p)
	out.Warnings, out.Errors = warnings, messagesOf(err)
	if obj.GetNamespace() != "" {
		// The API server drops it without a word.
		out.Warnings = append(out.Warnings, "metadata.namespace has no effect: a PlacementPolicy is in no namespace, and matches the "+
			"objects of all. Select namespaces in spec.match.namespaceSelector")
	}
	if err != nil {
		return out
	}
	spec := p.Spec.WithDefaults()
	// The validator has compiled and bound it.
	module, err := policy.Compile(p.Name, spec)
	if err != nil {
		return out
	}
	binding, err := policy.Bind(p.Name, module, spec.Replicate, cluster.Catalog())
	if err != nil {
		return out
	}
	reads := func(fields map[schema.GroupVersionResource]*projection.FieldSet) {
		for resource, set := range fields {
			out.Reads = append(out.Reads, readType{resource.Group, resource.Resource, replication.Paths(set)})
		}
	}
	reads(binding.Fields)
	if module.Nodes {
		reads(predicates.Reads())
	}
	slices.SortFunc(out.Reads, func(a, b readType) int { return strings.Compare(a.Resource+"."+a.Group, b.Resource+"."+b.Group) })
	return out
}

// decodePolicy returns the policy that an object is, without defaults, and the mistakes for which the API server refuses it; nil if there
// are none. The policy is never nil. With mistakes, it may be incomplete.
func decodePolicy(ctx context.Context, obj *unstructured.Unstructured) (*placementv1.PlacementPolicy, []string) {
	p := &placementv1.PlacementPolicy{}
	return p, decodeStrictly(ctx, "PlacementPolicy", obj, p)
}

// decodeStrictly decodes an object of a kind of Berth's API to into, which gets no defaults, and returns the mistakes for which the API
// server refuses it, such as unknown fields; nil if there are none.
func decodeStrictly(ctx context.Context, kind string, obj *unstructured.Unstructured, into metav1.Object) []string {
	schema, err := apischema.Of(kind)
	if err != nil {
		return []string{err.Error()}
	}
	var mistakes []string
	converted := numeral.FromUnstructuredStrictly(obj.Object, into)
	strict, isStrict := runtime.AsStrictDecodingError(converted)
	if converted == nil || isStrict {
		mistakes = mistakesInMetadata(kind, into)
	}
	if isStrict {
		for _, err := range strict.Errors() {
			mistakes = append(mistakes, printable.Text(err.Error()))
		}
	}
	for _, err := range schema.Validate(ctx, obj.Object) {
		mistakes = append(mistakes, printable.Text(err.Error()))
	}
	if len(mistakes) == 0 && converted != nil {
		mistakes = []string{printable.Text(converted.Error())}
	}
	return mistakes
}

// mistakesInMetadata returns the mistakes in the metadata of an object of a kind of Berth's API for which the API server refuses it, such
// as a name that is not valid. Neither a missing namespace nor the namespace of a cluster-scoped object is such a mistake.
func mistakesInMetadata(kind string, object metav1.Object) []string {
	metadata := &metav1.ObjectMeta{
		Name: object.GetName(), GenerateName: object.GetGenerateName(), Labels: object.GetLabels(), Annotations: object.GetAnnotations(),
		Finalizers: object.GetFinalizers(), OwnerReferences: object.GetOwnerReferences(),
	}
	namespaced := kind == quota.KindScopedQuota
	if namespaced {
		metadata.Namespace = cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)
	}
	var out []string
	for _, err := range apivalidation.ValidateObjectMeta(metadata, namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")) {
		out = append(out, printable.Text(err.Error()))
	}
	return out
}

// messagesOf returns the messages of an error of the API machinery, each after the path of the field that is wrong if the error names
// fields; nil for nil.
func messagesOf(err error) []string {
	if err == nil {
		return nil
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return []string{err.Error()}
	}
	var out []string
	for _, cause := range status.ErrStatus.Details.Causes {
		out = append(out, cause.Field+": "+cause.Message)
	}
	return out
}

func printChecked(p *printer, results []checked) {
	for i, r := range results {
		if i > 0 {
			p.line("")
		}
		if r.Object != "" {
			p.line("%s", r.Object)
		} else {
			p.line("policy %s", r.Policy)
		}
		for _, text := range r.Errors {
			p.line("  error: %s", paragraph(text))
		}
		for _, text := range r.Warnings {
			p.line("  warning: %s", paragraph(text))
		}
		for _, read := range r.Reads {
			p.line("  reads %s", schema.GroupResource{Group: read.Group, Resource: read.Resource})
			for _, field := range read.Fields {
				p.line("    %s", field)
			}
		}
		if len(r.Reads) > 0 {
			p.line("  Berth needs the right to list and watch these types.")
		}
	}
}

// clustersOf reads the clusters that the inventories of a cluster list. It implements policyvalidator.Clusters.
type clustersOf struct{ simulation.Cluster }

// All returns the clusters of the served inventories in their normal form. idle are messages about sources, and namespaces of sources, in
// the configuration that select no cluster.
func (c clustersOf) All(ctx context.Context) (clusters []map[string]any, idle []string, err error) {
	inventories := c.Catalog().Inventories()
	served := func(r schema.GroupVersionResource) bool {
		_, ok := c.Catalog().Exact(r)
		return ok
	}
	for _, resource := range inventories.Served(served) {
		list, err := c.List(ctx, resource, nil)
		if err != nil {
			return nil, nil, err
		}
		objects := make([]map[string]any, len(list))
		for i, obj := range list {
			objects[i] = obj.Object
		}
		some, none := inventories.Clusters(resource, objects)
		clusters, idle = append(clusters, some...), append(idle, none...)
	}
	return clusters, idle, nil
}

// scoresOf reads the scores in the AddOnPlacementScores of a cluster. It implements findings.Scores.
type scoresOf struct{ simulation.Cluster }

// All returns the scores of clusters, by the name of the cluster and that of the score; nil if the cluster does not serve
// AddOnPlacementScores.
func (s scoresOf) All(ctx context.Context) (map[string]map[string]any, error) {
	if _, ok := s.Catalog().Exact(replication.AddOnPlacementScores); !ok {
		return nil, nil
	}
	objects, err := s.List(ctx, replication.AddOnPlacementScores, nil)
	return replication.Scores(objects), err
}

// namespacesOf reads the namespaces of a cluster. It implements policyvalidator.Namespaces.
type namespacesOf struct{ simulation.Cluster }

// All returns a sequence of the names and labels of all namespaces. Of files, these are also the namespaces of objects, which the API
// server needs to store them. The labels always include the one with the name, which the API server sets.
func (n namespacesOf) All(ctx context.Context) (iter.Seq2[string, map[string]string], error) {
	objects, err := n.List(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), nil)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for _, obj := range objects {
		all[obj.GetName()] = obj.GetLabels()
	}
	if files, ok := n.Cluster.(interface{ NamespacesInUse() []string }); ok {
		for _, name := range files.NamespacesInUse() {
			if _, exists := all[name]; !exists {
				all[name] = nil
			}
		}
	}
	for name, of := range all {
		// The API server sets it.
		all[name] = labels.Merge(of, labels.Set{corev1.LabelMetadataName: name})
	}
	names := slices.Sorted(maps.Keys(all))
	return func(yield func(string, map[string]string) bool) {
		for _, name := range names {
			if !yield(name, all[name]) {
				return
			}
		}
	}, nil
}

// known reports whether the namespaces are known: at least one is, unlike in files that have only clusters. It also returns true if reading
// them fails, which the checks then report.
func (n namespacesOf) known(ctx context.Context) bool {
	all, err := n.All(ctx)
	if err != nil {
		// The checks report it.
		return true
	}
	for range all {
		return true
	}
	return false
}

// nodesOf reads the nodes of a cluster. It implements policyvalidator.Nodes and quotaspec.Nodes.
type nodesOf struct{ simulation.Cluster }

// All returns a map for each node, with the members name, labels, taints, and allocatable (its allocatable resources).
func (n nodesOf) All(ctx context.Context) ([]map[string]any, error) {
	objects, err := n.List(ctx, corev1.SchemeGroupVersion.WithResource("nodes"), nil)
	out := make([]map[string]any, len(objects))
	for i, obj := range objects {
		out[i] = watches.NodeValues(obj)
	}
	return out, err
}

// ExtendedResources returns the sorted names of the extended resources among the allocatable resources of nodes. ok is false if there are
// no nodes.
func (n nodesOf) ExtendedResources(ctx context.Context) (names []string, ok bool, err error) {
	nodes, err := n.All(ctx)
	return watches.ExtendedResourcesOf(nodes), len(nodes) > 0, err
}

// capacityOf adds up what pods can request in a cluster. It implements quotaspec.Capacity.
type capacityOf struct{ simulation.Cluster }

// All returns the allocatable CPU and memory of all clusters of the inventories and all nodes together. If a cluster or node does not say
// how much it has of one of the two, the result lacks that resource.
func (c capacityOf) All(ctx context.Context) (corev1.ResourceList, error) {
	clusters, _, err := clustersOf(c).All(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := nodesOf(c).All(ctx)
	return watches.CapacityOf(slices.Concat(clusters, nodes)), err
}

// scalesOf reads the scale subresources of the types of a cluster. It implements policyvalidator.Scales.
type scalesOf struct{ simulation.Cluster }

// ReplicasPath returns the path of the field that the scale subresource of a type sets, such as [spec replicas]; ok is false if the type
// has no such subresource. It knows Kubernetes' own types and CustomResourceDefinitions.
func (s scalesOf) ReplicasPath(ctx context.Context, resource schema.GroupVersionResource) (path []string, ok bool, err error) {
	if path, ok := match.BuiltinReplicasPath(resource.GroupResource()); ok {
		return path, true, nil
	}
	obj, err := s.Get(ctx, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), "", resource.GroupResource().String())
	if err != nil || obj == nil {
		return nil, false, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := numeral.FromUnstructured(obj.Object, &crd); err != nil {
		return nil, false, err
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == resource.Version && v.Subresources != nil && v.Subresources.Scale != nil {
			return strings.Split(strings.TrimPrefix(v.Subresources.Scale.SpecReplicasPath, "."), "."), true, nil
		}
	}
	return nil, false, nil
}
