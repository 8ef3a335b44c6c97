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
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/certs"
	"github.com/berth-dev/berth/internal/doctor"
	"github.com/berth-dev/berth/internal/numeral"
)

const doctorLong = `Check whether Berth works in a cluster: its Deployment and version, the leader, certificates, webhook configurations,
policies and quotas that are not ready, rollouts that wait for a user, the rights that policies need, and clocks. What you may not read is
reported as not checked.

The exit code is 0 if nothing is an error, and 1 otherwise.`

const doctorExample = `  # What is wrong?
  kubectl berth doctor`

// doctorOptions are the flags of the doctor command.
type doctorOptions struct {
	simulationFlags
	output string
	clock  clock.PassiveClock
}

func newDoctor(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &doctorOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}, clock: clock.RealClock{}}
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Check whether Berth works in a cluster",
		Long:    doctorLong,
		Example: doctorExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addSettings(cmd.Flags())
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format: json or yaml. Without it, text.")
	return cmd
}

func (o *doctorOptions) run(ctx context.Context) error {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	r := &examiner{namespace: o.berthNamespace, found: doctor.Installation{Namespace: o.berthNamespace, Version: version()}}
	if r.typed, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if r.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if err := r.readClock(ctx, config, o.clock); err != nil {
		return fmt.Errorf("nothing is checked, because the API server of the kubeconfig can't be reached: %w", err)
	}
	r.readInstallation(ctx)
	r.readObjects(ctx)
	r.readRights(ctx, o)
	findings := doctor.Check(r.found)
	if o.output != "" {
		if err := printStructured(o.Out, o.output, findings); err != nil {
			return err
		}
	} else if err := printFindings(newPrinter(o.Out), findings); err != nil {
		return err
	}
	if len(findings) > 0 && findings[0].Severity == doctor.Error {
		return exitError(1)
	}
	return nil
}

func printFindings(p *printer, findings []doctor.Finding) error {
	for _, f := range findings {
		p.line("%s: %s: %s", f.Severity, f.Object, paragraph(f.Message))
		if f.Runbook != "" {
			p.line("  see docs/runbook.md#%s", f.Runbook)
		}
	}
	if len(findings) == 0 {
		p.line("Nothing is wrong.")
	}
	return p.err
}

// examiner reads the state of an installation.
type examiner struct {
	namespace string // Berth's own
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	found     doctor.Installation // what was read so far, for doctor.Check; it also lists what could not be read
}

// note records that an object could not be read because of err, unless the object does not exist. It reports whether err is nil.
func (r *examiner) note(object string, err error) bool {
	if err != nil && !apierrors.IsNotFound(err) {
		r.found.Unread = append(r.found.Unread, doctor.Unread{Object: object, Err: err})
	}
	return err == nil
}

// readClock reads the API server's time from the header Date of a response, and the local time at that moment. If the header lacks a time,
// it notes that, and uses the local time for both.
func (r *examiner) readClock(ctx context.Context, config *rest.Config, c clock.PassiveClock) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.typed.Discovery().RESTClient().Get().AbsPath("/version").URL().String(),
		nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	r.found.LocalTime = c.Now()
	if r.found.ServerTime, err = http.ParseTime(response.Header.Get("Date")); err != nil {
		r.note(doctor.ObjectClock, fmt.Errorf("the API server does not tell its time: %w", err))
		r.found.ServerTime = r.found.LocalTime
	}
	return nil
}

// readInstallation reads Berth's Deployment, Lease, certificate, and webhook configurations into r.found. What does not exist stays nil or
// empty there. An error of reading one of them is added to r.found.Unread, and the others are still read.
func (r *examiner) readInstallation(ctx context.Context) {
	d, err := r.typed.AppsV1().Deployments(r.namespace).Get(ctx, "berth-controller-manager", metav1.GetOptions{})
	if r.note(doctor.ObjectDeployment, err) {
		r.found.Deployment = d
	}
	lease, err := r.typed.CoordinationV1().Leases(r.namespace).Get(ctx, "berth.placement.berth.dev", metav1.GetOptions{})
	if r.note(doctor.ObjectLease, err) {
		r.found.Lease = lease
	}
	secret, err := r.typed.CoreV1().Secrets(r.namespace).Get(ctx, certs.SecretName, metav1.GetOptions{})
	if r.note(doctor.ObjectCertificate, err) {
		r.found.Certificate = secret.Data[corev1.TLSCertKey]
	}
	selector := metav1.ListOptions{LabelSelector: managed}
	mutating, err := r.typed.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, selector)
	if r.note(doctor.ObjectMutating, err) {
		r.found.Mutating = mutating.Items
	}
	validating, err := r.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, selector)
	if r.note(doctor.ObjectValidating, err) {
		r.found.Validating = validating.Items
	}
}

// readObjects reads the policies, quotas, and LimitedResources of all namespaces, and notes which of these types can't be listed, such as
// those that the user may not list. A type that is not served is not noted.
func (r *examiner) readObjects(ctx context.Context) {
	for _, plural := range []string{"placementpolicies", "scopedquotas", "clusterscopedquotas", "limitedresources"} {
		list, err := r.dynamic.Resource(placementv1.GroupVersion.WithResource(plural)).List(ctx, metav1.ListOptions{})
		if !r.note(plural, err) {
			continue
		}
		for i := range list.Items {
			r.found.Objects = append(r.found.Objects, objectOf(&list.Items[i]))
		}
	}
}

// objectOf returns the parts of a policy, a quota, or a LimitedResource that package doctor checks.
func objectOf(obj *unstructured.Unstructured) doctor.Object {
	out := doctor.Object{Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), Generation: obj.GetGeneration()}
	var status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
		// The rollout is part of the status of a PlacementPolicy only.
		Rollout *placementv1.RolloutStatus   `json:"rollout"`
		Plan    *placementv1.RemediationPlan `json:"plan"`
	}
	if content, ok, _ := unstructured.NestedMap(obj.Object, "status"); ok {
		// A status that is not one of Berth counts as missing.
		_ = numeral.FromUnstructured(content, &status)
	}
	out.ObservedGeneration, out.Conditions, out.Rollout, out.Plan = status.ObservedGeneration, status.Conditions, status.Rollout, status.Plan
	mode, _, _ := unstructured.NestedString(obj.Object, "spec", "mode")
	out.Enforced = mode == "" || mode == string(placementv1.ModeEnforce)
	return out
}

// rightsTimeout bounds the time of all requests of readRights together.
const rightsTimeout = 20 * time.Second

// readRights adds each type that a policy reads and that the manager may not list or watch to r.found.Denied. It asks the API server about
// the manager's ServiceAccount.
func (r *examiner) readRights(ctx context.Context, o *doctorOptions) {
	const object = "the rights of the ServiceAccount berth-controller-manager"
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	s, err := o.simulate(ctx)
	if !r.note(object, err) {
		return
	}
	known := map[schema.GroupResource]string{}
	for _, p := range s.Policies() {
		for _, resource := range p.Resources() {
			verb, asked := known[resource.GroupResource()]
			if !asked {
				if verb, err = r.deniedVerb(ctx, s.Identity(), resource.GroupResource()); !r.note(object, err) {
					return
				}
				known[resource.GroupResource()] = verb
			}
			if verb != "" {
				r.found.Denied = append(r.found.Denied, doctor.Denied{Policy: p.Name, Verb: verb, Resource: resource.GroupResource().String()})
			}
		}
	}
}

// deniedVerb returns the first of list and watch that the manager's user may not use on a type; "" if it may use both.
func (r *examiner) deniedVerb(ctx context.Context, user string, resource schema.GroupResource) (string, error) {
	for _, verb := range []string{"list", "watch"} {
		review, err := r.typed.AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + r.namespace, "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: resource.Group, Resource: resource.Resource},
			}}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		if !review.Status.Allowed {
			return verb, nil
		}
	}
	return "", nil
}
