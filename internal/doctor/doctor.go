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

// Package doctor finds what is wrong with an installation of Berth. Check is pure: its caller reads the objects.
package doctor

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/waiting"
)

// Severity is how bad a finding is: Error or Warning.
type Severity string

const (
	// Error means that Berth does not do what it should.
	Error Severity = "error"
	// Warning means that something will go wrong, or could not be checked.
	Warning Severity = "warning"
)

// Finding is something that is wrong with an object of an installation, or that could not be checked: how bad it is, which object it is on,
// a message that says what is wrong and what to do, and a section of the runbook.
type Finding struct {
	Severity Severity `json:"severity"`
	// Object is the kind and name of what the finding is on, as in ScopedQuota team-a/gpus; ObjectClock for the clock.
	Object string `json:"object"`
	// Message says what is wrong and what to do.
	Message string `json:"message"`
	// Runbook is the anchor of the section in docs/runbook.md that says more; empty if there is none.
	Runbook string `json:"runbook,omitempty"`
}

// Installation is the state of an installation, as far as it could be read. A nil object does not exist, unless Unread says
// that it could not be read.
type Installation struct {
	// Namespace is Berth's own namespace.
	Namespace  string
	Deployment *appsv1.Deployment
	// Version is the version of the plugin, which does the checks. If it and that of the manager are of different releases, Check warns.
	Version string
	// Certificate is the serving certificate of the webhooks, in PEM. If it is empty, Check returns an error about it, unless Unread has
	// ObjectCertificate. Check ignores it if Deployment is nil.
	Certificate []byte
	Mutating    []admissionregistrationv1.MutatingWebhookConfiguration   // those of Berth alone; of them, Check reads the caBundles
	Validating  []admissionregistrationv1.ValidatingWebhookConfiguration // those of Berth alone; of them, Check reads the caBundles
	Lease       *coordinationv1.Lease                                    // the Lease of the leader election
	// Objects are the policies, quotas, and LimitedResources.
	Objects []Object
	// Denied are the types that policies read and that Berth may not list or watch, with one entry for each policy and type.
	Denied []Denied
	// Unread are the objects that could not be read.
	Unread []Unread
	// ServerTime is the time of the API server, and LocalTime the time of this machine at that moment. If the API server does not tell its
	// time, both are the time of this machine. Check does not compare them if ServerTime is zero.
	ServerTime, LocalTime time.Time
}

// Object is what Check reads of a policy, a quota, or a LimitedResource: its names, generations, conditions, and mode, and of a policy its
// rollout and plan.
type Object struct {
	Kind, Namespace, Name string
	Generation            int64
	ObservedGeneration    int64
	Conditions            []metav1.Condition
	// Enforced reports whether spec.mode is Enforce or not set, so that a policy or quota changes or denies requests. Check needs it
	// only to report that Berth has no MutatingWebhookConfiguration although an enforced policy exists. It does not affect any severity.
	Enforced bool
	// Rollout is the status of a policy's rollout; nil if it has none.
	Rollout *placementv1.RolloutStatus
	// Plan is status.plan of a policy: its pending remediations. It is nil if there are none. Check warns if the plan waits for an approval.
	Plan *placementv1.RemediationPlan
}

// Denied says that a policy reads a type of objects on which Berth may not use a verb, list or watch.
type Denied struct {
	Policy, Verb, Resource string
}

// Unread is something that Check needs and that could not be read, such as an object or all objects of a kind, and why.
type Unread struct {
	Object string
	Err    error
}

// unread reports whether something that is checked, such as ObjectLease, could not be read.
func (i *Installation) unread(object string) bool {
	return slices.ContainsFunc(i.Unread, func(u Unread) bool { return u.Object == object })
}

// Values of Finding.Object and Unread.Object.
const (
	ObjectDeployment  = "Deployment berth-controller-manager"
	ObjectCertificate = "Secret berth-webhook-cert"
	ObjectLease       = "Lease berth.placement.berth.dev"
	ObjectMutating    = "MutatingWebhookConfigurations"
	ObjectValidating  = "ValidatingWebhookConfigurations"
	ObjectClock       = "the clock"
)

// Check returns the findings, errors first.
func Check(i Installation) []Finding {
	out := slices.Concat(i.checkUnread(), i.checkDeployment(), i.checkLease(), i.checkCertificate(), i.checkWebhooks(), i.checkObjects(),
		i.checkRights(), i.checkClock())
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	return out
}

func (i *Installation) checkUnread() []Finding {
	var out []Finding
	for _, u := range i.Unread {
		out = append(out, Finding{Warning, u.Object, fmt.Sprintf("is not checked: %v", u.Err), ""})
	}
	return out
}

// released matches the versions of releases, which can be compared. Other builds have commits or dates in their version.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

func (i *Installation) checkDeployment() []Finding {
	d := i.Deployment
	if d == nil {
		if i.unread(ObjectDeployment) {
			return nil
		}
		if i.led() {
			return []Finding{{Warning, ObjectDeployment, fmt.Sprintf("does not exist in the namespace %s, and %s is the leader: Berth runs "+
				"outside the cluster, or its Deployment has another name. Its certificates are not checked", i.Namespace, *i.Lease.Spec.HolderIdentity),
				""}}
		}
		return []Finding{{Error, ObjectDeployment, fmt.Sprintf("does not exist in the namespace %s: install Berth, or name its namespace by "+
			"--berth-namespace", i.Namespace), ""}}
	}
	var out []Finding
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	switch {
	case d.Status.ReadyReplicas == 0:
		out = append(out, Finding{Error, ObjectDeployment, fmt.Sprintf("none of %d replicas is ready: look at the pods and their logs", wanted),
			"check-the-state"})
	case d.Status.ReadyReplicas < wanted:
		out = append(out, Finding{Warning, ObjectDeployment, fmt.Sprintf("%d of %d replicas are ready: look at the pods and their logs",
			d.Status.ReadyReplicas, wanted), "check-the-state"})
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		if _, tag, ok := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":"); ok && c.Name == "manager" && released.MatchString(tag) &&
			released.MatchString(i.Version) && tag != i.Version {
			out = append(out, Finding{Warning, ObjectDeployment,
				fmt.Sprintf("its version is %s, and this plugin's is %s: their decisions may differ, install the same version", tag, i.Version), ""})
		}
	}
	return out
}

// leaseGrace is how long after the expiry of the Lease its holder still counts as the leader.
const leaseGrace = 15 * time.Second

// held reports whether the lease names a replica as its holder, and has a time of renewal and a duration, even if it has expired.
func (i *Installation) held() bool {
	l := i.Lease
	return l != nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" && l.Spec.RenewTime != nil &&
		l.Spec.LeaseDurationSeconds != nil
}

// led reports whether a replica holds the lease now: the lease has not expired, or less than leaseGrace ago. It counts as not expired if
// the time of the API server is unknown.
func (i *Installation) led() bool {
	if !i.held() {
		return false
	}
	spec := i.Lease.Spec
	return !i.ServerTime.After(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds)*time.Second + leaseGrace))
}

func (i *Installation) checkLease() []Finding {
	if i.unread(ObjectLease) || i.Deployment == nil {
		return nil
	}
	if !i.held() {
		return []Finding{{Error, ObjectLease, "no replica is the leader: nothing is remediated, and no webhook configuration is written; look " +
			"at the logs of the pods", "check-the-state"}}
	}
	if spec := i.Lease.Spec; !i.led() {
		return []Finding{{Error, ObjectLease, fmt.Sprintf("its holder %s renewed the Lease last at %s, so no replica is the leader now: look at "+
			"the logs of the pods", *spec.HolderIdentity, spec.RenewTime.UTC().Format(time.RFC3339)), "check-the-state"}}
	}
	return nil
}

// expiryWarning is how long before its expiry a certificate should have been renewed at the latest. Later, that is a warning.
const expiryWarning = 7 * 24 * time.Hour

func (i *Installation) checkCertificate() []Finding {
	if i.unread(ObjectCertificate) || i.Deployment == nil {
		return nil
	}
	block, _ := pem.Decode(i.Certificate)
	if block == nil {
		return []Finding{{Error, ObjectCertificate, "has no certificate, or does not exist: the webhooks can't be called; look at the logs of " +
			"the leader", ""}}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return []Finding{{Error, ObjectCertificate, fmt.Sprintf("its certificate is damaged: %v; delete the Secret, and Berth creates it again",
			err), ""}}
	}
	switch left := certificate.NotAfter.Sub(i.ServerTime); {
	case left < 0:
		return []Finding{{Error, ObjectCertificate, "its certificate has expired: delete the Secret, and Berth creates it again", ""}}
	case left < expiryWarning:
		return []Finding{{Warning, ObjectCertificate, fmt.Sprintf("its certificate expires at %s, and should have been renewed: look at the "+
			"logs of the leader", certificate.NotAfter.UTC().Format(time.RFC3339)), ""}}
	}
	return i.checkAuthorities(certificate)
}

// checkAuthorities checks that each webhook trusts the serving certificate.
func (i *Installation) checkAuthorities(certificate *x509.Certificate) []Finding {
	var out []Finding
	check := func(configuration, webhook string, bundle []byte) {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: i.ServerTime}); err != nil {
			out = append(out, Finding{Error, configuration, fmt.Sprintf("the caBundle of %s does not verify the serving certificate: %v; "+
				"look at the logs of the leader, which writes it", webhook, err), "webhookpending"})
		}
	}
	for _, c := range i.Mutating {
		for _, w := range c.Webhooks {
			check("MutatingWebhookConfiguration "+c.Name, w.Name, w.ClientConfig.CABundle)
		}
	}
	for _, c := range i.Validating {
		for _, w := range c.Webhooks {
			check("ValidatingWebhookConfiguration "+c.Name, w.Name, w.ClientConfig.CABundle)
		}
	}
	return out
}

// checkWebhooks checks that Berth has a MutatingWebhookConfiguration if the mode of a policy is Enforce, which is the default, and a
// ValidatingWebhookConfiguration if there is any policy, quota, or LimitedResource. What could not be read is not checked.
func (i *Installation) checkWebhooks() []Finding {
	enforced := func(kinds ...string) bool {
		return slices.ContainsFunc(i.Objects, func(o Object) bool { return o.Enforced && slices.Contains(kinds, o.Kind) })
	}
	var out []Finding
	if len(i.Mutating) == 0 && enforced("PlacementPolicy") && !i.unread(ObjectMutating) {
		out = append(out, Finding{Error, ObjectMutating, "Berth has no MutatingWebhookConfiguration, so objects are admitted without a " +
			"decision of policies: look at the logs of the leader", "webhookpending"})
	}
	if len(i.Validating) == 0 && len(i.Objects) > 0 && !i.unread(ObjectValidating) {
		out = append(out, Finding{Error, ObjectValidating, "Berth has no ValidatingWebhookConfiguration, so policies are not checked when they " +
			"are applied, and no quota is charged: look at the logs of the leader", "webhookpending"})
	}
	return out
}

// checkObjects checks that policies, quotas, and LimitedResources are ready, that policies read no ambiguous names of clusters, and that
// nothing of them is paused or waits for the user.
func (i *Installation) checkObjects() []Finding {
	var out []Finding
	for _, o := range i.Objects {
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + name
		}
		object := o.Kind + " " + name
		ready := meta.FindStatusCondition(o.Conditions, placementv1.ConditionReady)
		switch {
		case ready == nil || o.ObservedGeneration < o.Generation:
			out = append(out, Finding{Error, object, "its status is older than its spec: the leader has not processed it", "check-the-state"})
			continue
		case ready.Status != metav1.ConditionTrue:
			out = append(out, Finding{Error, object, fmt.Sprintf("is not ready: %s: %s", ready.Reason, ready.Message),
				strings.ToLower(ready.Reason)})
		}
		if data := meta.FindStatusCondition(o.Conditions, placementv1.ConditionReplicated); data != nil &&
			data.Reason == placementv1.ReasonAmbiguousClusters {
			out = append(out, Finding{Warning, object, data.Message, strings.ToLower(data.Reason)})
		}
		if paused := meta.FindStatusCondition(o.Conditions, placementv1.ConditionPaused); paused != nil {
			what := "its remediation is paused"
			if paused.Reason == placementv1.ReasonWaitingForApproval || paused.Reason == placementv1.ReasonUnknownPlan {
				what = "its plan is not approved"
			}
			out = append(out, Finding{Warning, object, what + ": " + paused.Message, strings.ToLower(paused.Reason)})
		}
		for _, text := range waits(o) {
			out = append(out, Finding{Warning, object, text, ""})
		}
	}
	return out
}

// waits returns at most two messages for a policy: that its plan waits for an approval, with the command that approves it, and what its
// rollout waits for, or why it is paused.
func waits(o Object) (out []string) {
	if p := o.Plan; p != nil && p.State == placementv1.PlanWaitingForApproval && p.Moves > ptr.Deref(p.Done, 0) {
		wait, left := waiting.Wait{Reason: placementv1.WaitingForApproval, Policy: o.Name}, p.Moves-ptr.Deref(p.Done, 0)
		text := fmt.Sprintf("%d objects wait %s", left, wait)
		if left == 1 {
			text = fmt.Sprintf("1 object waits %s", wait)
		}
		out = append(out, text)
	}
	if text := rolloutWaits(o); text != "" {
		out = append(out, text)
	}
	return out
}

// rolloutWaits returns why the rollout of a policy waits for an approval, with the command that approves it, or why it is paused, with the
// command that rolls back if there is a previous revision; "" if it does neither.
func rolloutWaits(o Object) string {
	if o.Rollout == nil {
		return ""
	}
	switch r := o.Rollout; r.State {
	case placementv1.RolloutWaitingForApproval:
		return "its rollout waits " + waiting.OfRollout(o.Name, r).String()
	case placementv1.RolloutPaused:
		out := "its rollout is paused: " + r.Message
		if r.PreviousRevision != 0 {
			out += fmt.Sprintf("; to roll back: kubectl patch plpol %s --type=merge -p '{\"spec\":{\"rollout\":{\"revision\":%d}}}'",
				o.Name, r.PreviousRevision)
		}
		return out
	}
	return ""
}

func (i *Installation) checkRights() []Finding {
	var out []Finding
	for _, d := range i.Denied {
		out = append(out, Finding{Error, "PlacementPolicy " + d.Policy,
			fmt.Sprintf("reads %s, which Berth may not %s, and can't decide without these objects: grant get, list, and watch by a ClusterRole "+
				"labelled placement.berth.dev/aggregate-to-manager=true", d.Resource, d.Verb), "forbidden"})
	}
	return out
}

// maxSkew is how much the clocks of this machine and of the API server may differ before that is a finding.
const maxSkew = 30 * time.Second

func (i *Installation) checkClock() []Finding {
	if i.ServerTime.IsZero() {
		return nil
	}
	if skew := i.LocalTime.Sub(i.ServerTime).Abs(); skew > maxSkew {
		return []Finding{{Warning, ObjectClock, fmt.Sprintf("the clocks of this machine and of the API server differ by %s: correct the "+
			"wrong one, because certificates and leases depend on them", skew.Round(time.Second)), ""}}
	}
	return nil
}
