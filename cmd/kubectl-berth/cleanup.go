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
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/certs"
	"github.com/berth-dev/berth/internal/cleanup"
	"github.com/berth-dev/berth/internal/configuration"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/printable"
)

const cleanupLong = `Remove what Berth wrote into objects: the annotation in which it records what developers asked for, and the
annotations, labels, and scheduling fields that policies set. Where a policy replaced a requested value, that value returns. What was
changed after a policy set it stays.

Delete the policies first. The command refuses to run while Berth's webhook for placements is registered, because Berth would place the
objects again. Run it before you delete Berth's namespace: it verifies the records with the key there. After that, pass --unverified.

A workload whose scheduling fields are restored rolls out again. The scheduling fields of existing Pods and of Jobs that started can't be
changed; the command says which ones stay.

Objects that you may not change, and those whose record is not signed by that key, are reported, the others are cleaned up, and the
command fails. You can run it again at any time.`

const cleanupExample = `  # See what would be changed, in all namespaces and outside them
  kubectl berth cleanup --all-namespaces --dry-run

  # Change it
  kubectl berth cleanup --all-namespaces --yes

  # One namespace, after Berth and its key were removed
  kubectl berth cleanup -n shop --unverified`

// cleanupOptions are the flags of the cleanup command.
type cleanupOptions struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags

	// force runs the command although Berth's webhook is registered. unverified trusts all records, and dropUntrusted removes those that are
	// not signed by Berth's key, and leaves the current values.
	allNamespaces, dryRun, yes, force, unverified, dropUntrusted bool
	// berthNamespace is Berth's own namespace, which has the key. config is the path of the manager's configuration file; "" for none.
	berthNamespace, config string
}

func newCleanup(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &cleanupOptions{IOStreams: streams, flags: flags}
	cmd := &cobra.Command{
		Use:     "cleanup",
		Short:   "Remove what Berth wrote into objects",
		Long:    cleanupLong,
		Example: cleanupExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Clean up the objects of all namespaces, and those that are in none.")
	f.BoolVar(&o.dryRun, "dry-run", false, "Print the objects and their changes, which the API server checks, and change nothing.")
	f.BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation.")
	f.BoolVar(&o.force, "force", false, "Run although Berth's webhook for placements is registered. "+
		"An object that the webhook places again is reported as an error, and the others are cleaned up.")
	f.BoolVar(&o.unverified, "unverified", false,
		"Restore values from records without verifying their signatures, if the key was deleted. A user who may write an object may have "+
			"forged its record: look at --dry-run first.")
	f.BoolVar(&o.dropUntrusted, "drop-untrusted", false,
		"Remove records that are not signed by Berth's key, and leave the current values. The requested values in such records are lost.")
	f.StringVar(&o.berthNamespace, "berth-namespace", "berth-system", "Berth's own namespace, which has the Secret "+certs.KeySecretName+".")
	f.StringVar(&o.config, "config", "", "The manager's configuration file, for its podTemplates and placements.")
	return cmd
}

// clients are the API clients of the cleanup command: for built-in types, for the metadata of objects of any type, and for whole objects of
// any type.
type clients struct {
	typed    kubernetes.Interface
	metadata metadata.Interface
	dynamic  dynamic.Interface
}

func (o *cleanupOptions) clients() (*clients, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config = rest.CopyConfig(config)
	// The command sends a list request for each type, and a read and a patch for each object.
	config.QPS, config.Burst = 50, 100
	// The API server sends a warning for each deprecated type that is listed.
	config.WarningHandler = rest.NoWarnings{}
	out := &clients{}
	var errs [3]error
	out.typed, errs[0] = kubernetes.NewForConfig(config)
	out.metadata, errs[1] = metadata.NewForConfig(config)
	out.dynamic, errs[2] = dynamic.NewForConfig(config)
	return out, errors.Join(errs[:]...)
}

// managed is the label selector of the objects that Berth creates at run time, such as its webhook configurations.
const managed = "app.kubernetes.io/name=berth,app.kubernetes.io/managed-by=berth"

func (o *cleanupOptions) run(ctx context.Context) error {
	c, err := o.clients()
	if err != nil {
		return err
	}
	if err := o.checkWebhooks(ctx, c); err != nil {
		return err
	}
	cleaner, err := o.cleaner(ctx, c)
	if err != nil {
		return err
	}
	namespace := ""
	if !o.allNamespaces {
		if namespace, _, err = o.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
		}
	}
	targets, unread := cleaner.Find(ctx, namespace)
	if len(targets) > 0 && !o.dryRun && !o.yes {
		if err := o.confirm(len(targets), namespace); err != nil {
			return err
		}
	}
	s := &summary{options: o, cleaner: cleaner, cleaned: sets.New[string](), kept: sets.New[string](), failed: sets.New[string]()}
	for pass := 0; len(targets) > 0; pass++ {
		s.clean(ctx, targets)
		if o.dryRun {
			break
		}
		// Before a controller noticed that its object is clean, it may have copied the record once more.
		if !notify.Sleep(ctx, settleDelay) {
			return ctx.Err()
		}
		if targets, unread = cleaner.Find(ctx, namespace); s.tried(targets) {
			break
		}
		if pass == maxPasses {
			s.giveUp(targets)
			break
		}
	}
	s.printTotals(namespace)
	if o.allNamespaces && !o.dryRun {
		o.reportRest(ctx, c)
	}
	return errors.Join(unread, s.err())
}

// settleDelay is how long controllers have to notice that their objects are clean, before the command looks for copies
// of records.
const settleDelay = time.Second

// maxPasses is the maximum number of times that the command cleans up objects again because they got a record again.
const maxPasses = 3

// checkWebhooks returns an error if Berth's webhook for placements is registered. With --force, or if webhook configurations can't be
// listed, it only warns.
func (o *cleanupOptions) checkWebhooks(ctx context.Context, c *clients) error {
	list, err := c.typed.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: managed})
	if err != nil {
		o.warn("cannot check whether Berth's webhook for placements is still registered: %v; the command goes on, and reports an error for "+
			"each object that the webhook places again", err)
		return nil
	}
	if len(list.Items) == 0 {
		return nil
	}
	if !o.force {
		return fmt.Errorf("mutatingwebhookconfiguration/%s is registered, so Berth would place the objects again: "+
			"delete the policies, wait until Berth has deleted this configuration, and run the command again; or pass --force", list.Items[0].Name)
	}
	o.warn("mutatingwebhookconfiguration/%s is registered: Berth places objects again if a policy matches them", list.Items[0].Name)
	return nil
}

func (o *cleanupOptions) warn(format string, args ...any) {
	// Ignore the error: there is no other place to report it.
	newPrinter(o.ErrOut).line("Warning: "+format, args...)
}

// cleaner returns a Cleaner for the flags. Without --unverified, it reads the key that verifies records from the Secret in Berth's
// namespace; it is an error if the Secret does not exist.
func (o *cleanupOptions) cleaner(ctx context.Context, c *clients) (*cleanup.Cleaner, error) {
	out := &cleanup.Cleaner{
		Discovery: c.typed.Discovery(), Metadata: c.metadata, Objects: c.dynamic, Keyring: placement.NewUnverifiedKeyring(),
		DropUntrusted: o.dropUntrusted, DryRun: o.dryRun,
	}
	if o.config != "" {
		config, err := configuration.Load(o.config)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		if out.Templates, err = config.Templates(); err != nil {
			return nil, fmt.Errorf("--config: %s: %w", o.config, err)
		}
		if out.ClusterLists, err = config.ClusterLists(); err != nil {
			return nil, fmt.Errorf("--config: %s: %w", o.config, err)
		}
	}
	if o.unverified {
		return out, nil
	}
	secret, err := c.typed.CoreV1().Secrets(o.berthNamespace).Get(ctx, certs.KeySecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("secret %s/%s, which has the key that verifies the records, does not exist: name Berth's namespace by "+
			"--berth-namespace, or, if Berth was uninstalled, look at the changes with --unverified --dry-run and pass --unverified",
			o.berthNamespace, certs.KeySecretName)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key that verifies the records: %w", err)
	}
	if out.Keyring, err = certs.KeyringOf(secret); err != nil {
		return nil, err
	}
	return out, nil
}

// confirm asks the user whether to clean up count objects of a namespace or, if namespace is empty, of all namespaces and outside them. Any
// answer but y or yes is an error.
func (o *cleanupOptions) confirm(count int, namespace string) error {
	where := "in all namespaces and outside them"
	if namespace != "" {
		where = "in namespace " + printable.Text(namespace)
	}
	question := fmt.Sprintf("Clean up %s %s? Workloads whose scheduling fields change roll out again.", objects(count), where)
	return confirm(o.IOStreams, question, "nothing is changed: answer y, or pass --yes; --dry-run prints the changes")
}

// confirm asks the user a question on the standard error. Unless the answer is y or yes, it returns an error with the text otherwise.
func confirm(streams genericiooptions.IOStreams, question, otherwise string) error {
	if _, err := fmt.Fprintf(streams.ErrOut, "%s [y/N] ", question); err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	// Treat an input that ends without an answer as a no.
	answer, _ := bufio.NewReader(streams.In).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New(otherwise)
}

// objects returns a number of objects for a message, such as "1 object".
func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

// summary prints the result for each object, and counts the results for the last line of the output.
type summary struct {
	options *cleanupOptions
	cleaner *cleanup.Cleaner

	// cleaned are the objects that were cleaned up, or would be with --dry-run. kept are those of cleaned that keep fields that policies set,
	// because these can't be changed any more. failed are the objects that could not be cleaned up.
	cleaned, kept, failed sets.Set[string]
}

// clean cleans up those of the targets that did not fail before, with --dry-run without changing them. It prints what changes, and warns of
// each target that fails.
func (s *summary) clean(ctx context.Context, targets []cleanup.Target) {
	for _, t := range targets {
		if s.failed.Has(t.String()) {
			continue
		}
		undone, err := s.cleaner.Clean(ctx, t)
		if err != nil {
			s.failed.Insert(t.String())
			s.options.warn("%s: %v", t, err)
		}
		if undone != nil {
			s.cleaned.Insert(t.String())
			s.print(t, undone)
		}
	}
}

// print prints what was undone at an object, or would be with --dry-run, and adds the object to kept if a part of it can't be undone. It
// does not add it to cleaned.
func (s *summary) print(t cleanup.Target, undone *placement.UndoResult) {
	p := newPrinter(s.options.Out)
	done := "cleaned up"
	if s.options.dryRun {
		done = "would be cleaned up"
	}
	p.line("%s %s", t, done)
	stays := false
	for _, change := range undone.Changes {
		prefix := ""
		if change.Immutable != "" {
			prefix, stays = "cannot ", true
		}
		p.line("  %s%s", prefix, change.Action())
	}
	if undone.Template {
		p.line("  the object keeps its pod template, because its owner can still be rolled back to this template")
	}
	if !undone.Trusted {
		p.line("  the object's record is not signed by Berth's key: the record is removed, and the object keeps all values")
	}
	if stays {
		s.kept.Insert(t.String())
	}
}

// tried reports whether the command already failed to clean up each of the targets, or there are none, so that another pass is useless.
func (s *summary) tried(targets []cleanup.Target) bool {
	for _, t := range targets {
		if !s.failed.Has(t.String()) {
			return false
		}
	}
	return true
}

// giveUp counts targets as failed, and warns of them: they got a record again after each pass.
func (s *summary) giveUp(targets []cleanup.Target) {
	for _, t := range targets {
		if !s.failed.Has(t.String()) {
			s.failed.Insert(t.String())
			s.options.warn("%s: %v", t, cleanup.ErrPlacedAgain)
		}
	}
}

// printTotals prints how many objects were cleaned up, or would be with --dry-run, how many of these keep fields that can't be changed, and
// that other namespaces were not searched if namespace is not "". It does not count the objects that failed.
func (s *summary) printTotals(namespace string) {
	done := "cleaned up"
	if s.options.dryRun {
		done = "would be cleaned up (dry run)"
	}
	line := objects(s.cleaned.Len()) + " " + done
	if s.kept.Len() > 0 {
		line += fmt.Sprintf(", of which %d keep scheduling fields that can't be changed", s.kept.Len())
	}
	if namespace != "" {
		line += "; other namespaces and objects in none were not looked at (--all-namespaces)"
	}
	newPrinter(s.options.Out).line("%s", line)
}

// err returns an error if an object could not be cleaned up.
func (s *summary) err() error {
	if len(s.failed) > 0 {
		return fmt.Errorf("%s could not be cleaned up, see above: remove the causes and run the command again", objects(len(s.failed)))
	}
	return nil
}

// leftovers are the types of cluster-scoped objects, besides Namespaces, that Berth or its installation create: webhook configurations,
// ClusterRoles and their bindings, and CustomResourceDefinitions. reportRest prints how to delete Berth's objects of these types once Berth
// is uninstalled.
var leftovers = []schema.GroupVersionResource{
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

// isBerths reports whether an object of one of the leftovers types belongs to Berth. Objects that controller-gen generates have no labels,
// so a name with the prefix berth- or the suffix definitions is enough.
func isBerths(obj metav1.Object) bool {
	return obj.GetLabels()["app.kubernetes.io/name"] == "berth" || strings.HasPrefix(obj.GetName(), "berth-") ||
		strings.HasSuffix(obj.GetName(), definitions)
}

// definitions is the suffix of the names of Berth's CustomResourceDefinitions.
const definitions = ".placement.berth.dev"

// reportRest prints the commands by which the user deletes what exists of Berth outside of namespaces, and its namespace, after
// uninstalling it. It leaves out types that the user may not list.
func (o *cleanupOptions) reportRest(ctx context.Context, c *clients) {
	var lines []string
	for _, resource := range leftovers {
		list, err := c.metadata.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		var names []string
		for i := range list.Items {
			if item := &list.Items[i]; isBerths(item) {
				names = append(names, item.Name)
			}
		}
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("kubectl delete %s %s", resource.GroupResource(), strings.Join(names, " ")))
		}
	}
	if _, err := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, o.berthNamespace,
		metav1.GetOptions{}); err == nil {
		lines = append(lines, "kubectl delete namespace "+o.berthNamespace)
	}
	if len(lines) == 0 {
		return
	}
	p := newPrinter(o.Out)
	p.line("This command does not uninstall Berth. Uninstall it the way it was installed. After that, and not before, delete what is left " +
		"of these objects, which exist now:")
	for _, line := range lines {
		p.line("  %s", line)
	}
}
