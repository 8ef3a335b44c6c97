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
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/rules"
)

const renderLong = `Print the Rego module of each policy in files. For a policy with spec.rules, this is the module that Berth compiles
the rules to; its comments name the fields of the rules. For a policy with spec.rego, it is that text.

With --digest, print the digest of the module and the name of the policy instead. It is the one in status.moduleDigest while Berth decides
by these rules. Policies with spec.rego have no such digest and are listed on the standard error.

The command needs no cluster. It prints the modules of all policies that it can render. The exit code is 0 if these are all policies in
the files, and 1 otherwise: the errors are on the standard error, each with its field.`

const renderExample = `  # What do the rules of a policy compile to?
  kubectl berth render policy.yaml

  # The modules of all policies in a directory
  kubectl berth render -R -f policies/

  # Is this version in force?
  kubectl berth render --digest policy.yaml
  kubectl get plpol eu-pci -o jsonpath={.status.moduleDigest}`

// renderOptions are the flags of the render command: the files with policies, and whether it prints the digests of their Rego modules in
// place of the modules.
type renderOptions struct {
	simulationFlags
	files  resource.FilenameOptions
	digest bool // prints digests of modules in place of the modules
}

func newRender(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &renderOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}
	cmd := &cobra.Command{
		Use:     "render (FILE... | -f FILENAME)",
		Short:   "Print the Rego modules of policies",
		Long:    renderLong,
		Example: renderExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files.Filenames = append(o.files.Filenames, args...)
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringSliceVarP(&o.files.Filenames, "filename", "f", nil, "Files, directories or - with policies.")
	f.BoolVarP(&o.files.Recursive, "recursive", "R", false, "Read directories recursively.")
	f.BoolVar(&o.digest, "digest", false, "Print the digest of each module in place of the module.")
	return cmd
}

func (o *renderOptions) run(ctx context.Context) error {
	if len(o.files.Filenames) == 0 {
		return errors.New("name the files with policies: policy.yaml")
	}
	objects, err := o.manifests(&o.files)
	if err != nil {
		return err
	}
	var policies []*unstructured.Unstructured
	for _, obj := range objects {
		if obj.GroupVersionKind() == placementv1.GroupVersion.WithKind("PlacementPolicy") {
			policies = append(policies, obj)
		}
	}
	if len(policies) == 0 {
		return errors.New("the files contain no PlacementPolicy")
	}
	out, errOut := newPrinter(o.Out), newPrinter(o.ErrOut)
	wrong, printed := 0, 0
	for _, obj := range policies {
		module, mistakes := moduleOf(ctx, obj)
		for _, text := range mistakes {
			errOut.line("PlacementPolicy %s: %s", obj.GetName(), paragraph(text))
		}
		switch {
		case len(mistakes) > 0:
			wrong++
		case o.digest && !module.rendered:
			errOut.line("PlacementPolicy %s: no digest is printed, because Berth sets status.moduleDigest only of policies with "+
				"spec.rules: compare spec.rego instead", obj.GetName())
		case o.digest:
			out.line("%s  %s", rules.Digest(module.text), obj.GetName())
		default:
			if printed++; printed > 1 {
				out.line("")
			}
			if len(policies) > 1 {
				out.line("# PlacementPolicy %s", obj.GetName())
			}
			out.document(strings.TrimSuffix(module.text, "\n") + "\n")
		}
	}
	if err := errors.Join(out.err, errOut.err); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d policies can't be rendered, see above", wrong, len(policies))
	}
	return nil
}

// policyModule is the Rego module of a policy: spec.rego, or what spec.rules are compiled to.
type policyModule struct {
	text string
	// rendered reports whether the module was compiled from spec.rules; otherwise it is spec.rego.
	rendered bool
}

// moduleOf returns the module of a policy, or the mistakes because of which it has none. A policy with neither spec.rules nor spec.rego is
// such a mistake.
func moduleOf(ctx context.Context, obj *unstructured.Unstructured) (module policyModule, mistakes []string) {
	p, mistakes := decodePolicy(ctx, obj)
	switch {
	case len(mistakes) > 0:
		return policyModule{}, mistakes
	case len(p.Spec.Rules) == 0 && p.Spec.Rego == "":
		return policyModule{}, []string{"the policy has neither spec.rules nor spec.rego, so there is no module to print"}
	case len(p.Spec.Rules) == 0:
		return policyModule{text: p.Spec.Rego}, nil
	}
	m, _, errs := rules.Render(p.Spec.Rules)
	for _, err := range errs {
		mistakes = append(mistakes, err.Error())
	}
	return policyModule{text: m.Text, rendered: true}, mistakes
}
