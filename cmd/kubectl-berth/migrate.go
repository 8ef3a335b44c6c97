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
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/input"
	"github.com/berth-dev/berth/internal/migration"
	"github.com/berth-dev/berth/internal/numeral"
)

const migrateLong = `Read the ConfigMaps that kube-mgmt loads into an OPA, and print PlacementPolicies that decide the same.

Policies go to the standard output, what became of each ConfigMap's keys to the standard error. Nothing is written to the
cluster: apply what is printed. If anything had to be left out, nothing is printed and the command fails, unless
--allow-partial is given. Read the ConfigMaps of one OPA at a time.`

const migrateExample = `  # The policies of one namespace, to look at
  kubectl berth migrate configmaps -n opa > policies.yaml

  # A namespace whose ConfigMaps have no labels, and workloads other than Deployments
  kubectl berth migrate configmaps -n kube-federation-scheduling-policy --selector= --resource=replicasets.apps/v1

  # Files, without a cluster
  kubectl berth migrate configmaps -f manifests/ --mode=Warn`

// defaultResource is matched if --resource is not given, because kube-mgmt's ConfigMaps do not name the types they
// cover.
const defaultResource = "deployments.apps/v1"

// migrateOptions are the flags of the migrate configmaps command: those that select ConfigMaps and Rego packages, and those that set what
// the policies match, their modes, and the version of Rego.
type migrateOptions struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags

	files         resource.FilenameOptions // with the ConfigMaps; those of the cluster if empty
	allNamespaces bool
	// selector is the label selector of the ConfigMaps with modules; "" for all that dataSelector does not select. dataSelector is that of the
	// ConfigMaps with data; "" for none.
	selector, dataSelector string
	// packages are the Rego packages to convert to policies; empty for all. resources are the types that the policies match.
	packages, resources            []string
	mode, remediation, regoVersion string // for all policies; regoVersion is that of the modules: v0, v1, or auto
	allowPartial                   bool   // prints the policies even if something was left out
	// resourcesGiven reports whether the user gave --resource, so that resources are not the default.
	resourcesGiven bool
}

func newMigrateConfigMaps(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &migrateOptions{IOStreams: streams, flags: flags}
	cmd := &cobra.Command{
		Use:     "configmaps",
		Short:   "Turn ConfigMaps of OPA and kube-mgmt into PlacementPolicies",
		Long:    migrateLong,
		Example: migrateExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.resourcesGiven = cmd.Flags().Changed("resource")
			return o.run()
		},
	}
	f := cmd.Flags()
	f.StringSliceVarP(&o.files.Filenames, "filename", "f", nil, "Files, directories or - to read ConfigMaps from, in place of the cluster.")
	f.BoolVarP(&o.files.Recursive, "recursive", "R", false, "Read directories of --filename recursively.")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Read the ConfigMaps of all namespaces, as kube-mgmt does with --namespaces=*.")
	f.StringVarP(&o.selector, "selector", "l", migration.DefaultPolicySelector,
		"Label selector of ConfigMaps with Rego modules. Empty for all that --data-selector does not select, as in a namespace of which "+
			"kube-mgmt reads ConfigMaps with any labels.")
	f.StringVar(&o.dataSelector, "data-selector", migration.DefaultDataSelector,
		"Label selector of ConfigMaps with documents for the data of the policies. Empty for none.")
	f.StringSliceVar(&o.packages, "package", nil,
		"Rego packages to turn into policies, such as kubernetes.placement. Without it, every package that defines annotations, labels, errors, "+
			"or warnings becomes a policy.")
	f.StringSliceVar(&o.resources, "resource", []string{defaultResource},
		"Types that the policies match, as <plural>.<group>/<version>, or <plural>/<version> of the core group.")
	f.StringVar(&o.mode, "mode", string(placementv1.ModeDryRun), "Mode of the policies (spec.mode): DryRun, Warn or Enforce.")
	f.StringVar(&o.remediation, "remediation", string(placementv1.RemediationManual),
		"How the policies remediate existing objects (spec.remediation.mode): Manual, Approved, Automatic, NewOnly or Off.")
	cmd.MarkFlagsMutuallyExclusive("filename", "all-namespaces")
	f.StringVar(&o.regoVersion, "rego-version", "auto", "Version of Rego that the modules are written in: v0, v1, or auto to find out from "+
		"each text.")
	f.BoolVar(&o.allowPartial, "allow-partial", false, "Print what could be converted although something was left out.")
	return cmd
}

func (o *migrateOptions) run() error {
	options, err := o.options()
	if err != nil {
		return err
	}
	configMaps, err := o.read(options)
	if err != nil {
		return err
	}
	if len(configMaps) == 0 {
		if len(o.files.Filenames) > 0 {
			return errors.New("no ConfigMap found in the files of -f")
		}
		return errors.New("no ConfigMap found that --selector or --data-selector selects: name the namespace of OPA by -n, read all " +
			"namespaces by -A, or name other labels by --selector")
	}
	result := migration.Convert(configMaps, options)
	if err := o.report(result); err != nil {
		return err
	}
	if n := result.LeftOut(); n > 0 && !o.allowPartial {
		return fmt.Errorf("nothing is printed, because something was left out (%d, see above): correct it, or pass --allow-partial to "+
			"print the rest", n)
	}
	return printPolicies(o.Out, result.Policies)
}

// options validates the flags and converts them to options for the conversion.
func (o *migrateOptions) options() (migration.Options, error) {
	out := migration.Options{Packages: o.packages}
	var err error
	if out.Policies, err = labels.Parse(o.selector); err != nil {
		return out, fmt.Errorf("--selector: %w", err)
	}
	if out.Data, err = labels.Parse(o.dataSelector); err != nil {
		return out, fmt.Errorf("--data-selector: %w", err)
	}
	if o.dataSelector == "" {
		out.Data = labels.Nothing()
	}
	for _, text := range o.resources {
		rule, err := resourceRule(text)
		if err != nil {
			return out, fmt.Errorf("--resource: %w", err)
		}
		out.Resources = append(out.Resources, rule)
	}
	if out.Mode, err = oneOf("--mode", o.mode, placementv1.ModeDryRun, placementv1.ModeWarn, placementv1.ModeEnforce); err != nil {
		return out, err
	}
	if out.Remediation, err = oneOf("--remediation", o.remediation, placementv1.RemediationManual, placementv1.RemediationApproved,
		placementv1.RemediationAutomatic, placementv1.RemediationNewOnly,
		placementv1.RemediationOff); err != nil {
		return out, err
	}
	const auto = "auto"
	if out.Language, err = oneOf("--rego-version", placementv1.RegoVersion(o.regoVersion), auto, placementv1.RegoV0,
		placementv1.RegoV1); err != nil {
		return out, err
	}
	if out.Language == auto {
		out.Language = ""
	}
	return out, nil
}

// oneOf returns the value of a flag, or an error if it is none of the allowed ones.
func oneOf[T ~string, S ~string](flag string, value S, allowed ...T) (T, error) {
	if slices.Contains(allowed, T(value)) {
		return T(value), nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return "", fmt.Errorf("%s: %q is none of %s", flag, value, strings.Join(names, ", "))
}

// resourceRule parses <plural>.<group>/<version>, or <plural>/<version> for the core group, to a rule for this one type.
func resourceRule(text string) (placementv1.ResourceRule, error) {
	name, version, found := strings.Cut(text, "/")
	plural, group, _ := strings.Cut(name, ".")
	if !found || plural == "" || version == "" || strings.Contains(version, "/") {
		return placementv1.ResourceRule{}, fmt.Errorf("%q is not <plural>.<group>/<version>, such as %s or pods/v1", text, defaultResource)
	}
	return placementv1.ResourceRule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{plural}}, nil
}

// read returns all ConfigMaps in the files of --filename, whatever their labels. Without that flag, it returns those ConfigMaps of the
// cluster that one of the selectors of the options selects, in the namespace of the kubeconfig or, with --all-namespaces, in all.
func (o *migrateOptions) read(options migration.Options) ([]corev1.ConfigMap, error) {
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
	}
	builder := resource.NewBuilder(o.flags).Unstructured().Flatten()
	if len(o.files.Filenames) > 0 {
		if builder, err = withFiles(builder.Local(), &o.files, o.In, input.MaxText); err != nil {
			return nil, fmt.Errorf("reading ConfigMaps: %w", err)
		}
	} else {
		builder = builder.ResourceTypes("configmaps").SelectAllParam(true).NamespaceParam(namespace).DefaultNamespace().
			AllNamespaces(o.allNamespaces).RequestChunksOf(500)
	}
	var out []corev1.ConfigMap
	err = builder.Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		obj, ok := info.Object.(*unstructured.Unstructured)
		if !ok || obj.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("ConfigMap") {
			return nil
		}
		var cm corev1.ConfigMap
		if err := numeral.FromUnstructured(obj.Object, &cm); err != nil {
			return fmt.Errorf("%s: %w", info.Source, err)
		}
		if cm.Namespace == "" {
			cm.Namespace = namespace
		}
		// Ignore other ConfigMaps of a namespace. Files were named explicitly, so use all of their ConfigMaps.
		set := labels.Set(cm.Labels)
		if len(o.files.Filenames) > 0 || options.Policies.Matches(set) || options.Data.Matches(set) {
			out = append(out, cm)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMaps: %w", err)
	}
	return out, nil
}

// report prints the findings on the sources to the standard error, with a line for each policy on what it matches and reads. Findings are
// no errors: it fails only if it can't write.
func (o *migrateOptions) report(result migration.Result) error {
	p := newPrinter(o.ErrOut)
	for _, f := range result.Findings {
		p.line("%s", f)
	}
	for _, policy := range result.Policies {
		watches := "no cluster data"
		if len(policy.Reads) > 0 {
			names := make([]string, len(policy.Reads))
			for i, read := range policy.Reads {
				names[i] = read.String()
			}
			watches = strings.Join(names, ", ")
		}
		p.line("PlacementPolicy %q: Rego %s, mode %s, remediation %s, matches %s, reads %s",
			policy.Object.Name, policy.Object.Spec.RegoVersion, o.mode, o.remediation, strings.Join(o.resources, ", "), watches)
	}
	if len(result.Policies) > 0 && !o.resourcesGiven {
		p.line("ConfigMaps don't name the types of the objects: the policies match %[1]s. To match others, name all types by --resource, "+
			"%[1]s too.", defaultResource)
	}
	return p.err
}
