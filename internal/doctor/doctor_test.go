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

package doctor_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/doctor"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// certificate returns a certificate that signs itself and ends at a time, in PEM.
func certificate(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sound returns an installation with which nothing is wrong.
func sound(t *testing.T) doctor.Installation {
	authority := certificate(t, now.AddDate(1, 0, 0))
	client := admissionregistrationv1.WebhookClientConfig{CABundle: authority}
	ready := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "InForce"}}
	return doctor.Installation{
		Namespace: "berth-system", Version: "v0.1.0", ServerTime: now, LocalTime: now, Certificate: authority,
		Deployment: &appsv1.Deployment{
			Spec:   appsv1.DeploymentSpec{Replicas: new(int32(2)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "ghcr.io/berth-dev/berth:v0.1.0"}}}}},
			Status: appsv1.DeploymentStatus{ReadyReplicas: 2},
		},
		Lease:      &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("pod-1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: now}}},
		Mutating:   []admissionregistrationv1.MutatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "berth-placement"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "fail.berth.dev", ClientConfig: client}}}},
		Validating: []admissionregistrationv1.ValidatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "berth"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "policies.berth.dev", ClientConfig: client}}}},
		Objects:    []doctor.Object{{Kind: "PlacementPolicy", Name: "p", Generation: 1, ObservedGeneration: 1, Conditions: ready, Enforced: true}},
	}
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(*doctor.Installation)
		want   []string
	}{
		"nothing": {func(*doctor.Installation) {}, nil},
		"outside the cluster": {func(i *doctor.Installation) { i.Deployment = nil }, []string{
			"warning Deployment berth-controller-manager does not exist in the namespace berth-system, and pod-1 is the leader: Berth runs outside the cluster",
		}},
		"no Deployment": {func(i *doctor.Installation) { i.Deployment, i.Lease.Spec.RenewTime.Time = nil, now.Add(-time.Minute) }, []string{
			"error Deployment berth-controller-manager does not exist in the namespace berth-system: install Berth, or name its namespace by --berth-namespace",
		}},
		"no replica":          {func(i *doctor.Installation) { i.Deployment.Status.ReadyReplicas = 0 }, []string{"error Deployment berth-controller-manager none of 2 replicas is ready"}},
		"some replicas":       {func(i *doctor.Installation) { i.Deployment.Status.ReadyReplicas = 1 }, []string{"warning Deployment berth-controller-manager 1 of 2 replicas are ready"}},
		"other version":       {func(i *doctor.Installation) { i.Version = "v0.2.0" }, []string{"warning Deployment berth-controller-manager its version is v0.1.0, and this plugin's is v0.2.0"}},
		"a build of a commit": {func(i *doctor.Installation) { i.Version = "v0.0.0-20260102030405-abcdef012345+dirty" }, nil},
		"no leader":           {func(i *doctor.Installation) { i.Lease.Spec.HolderIdentity = nil }, []string{"error Lease berth.placement.berth.dev no replica is the leader"}},
		"silent leader":       {func(i *doctor.Installation) { i.Lease.Spec.RenewTime.Time = now.Add(-time.Minute) }, []string{"error Lease berth.placement.berth.dev its holder pod-1 renewed the Lease last at 2026-01-02T03:03:05Z"}},
		"no certificate":      {func(i *doctor.Installation) { i.Certificate = nil }, []string{"error Secret berth-webhook-cert has no certificate"}},
		"expired":             {func(i *doctor.Installation) { i.Certificate = certificate(t, now.Add(-time.Minute)) }, []string{"error Secret berth-webhook-cert its certificate has expired"}},
		"expires soon":        {func(i *doctor.Installation) { i.Certificate = certificate(t, now.Add(time.Hour)) }, []string{"warning Secret berth-webhook-cert its certificate expires at 2026-01-02T04:04:05Z"}},
		"another authority": {func(i *doctor.Installation) {
			i.Mutating[0].Webhooks[0].ClientConfig.CABundle = certificate(t, now.AddDate(1, 0, 0))
		}, []string{
			"error MutatingWebhookConfiguration berth-placement the caBundle of fail.berth.dev does not verify the serving certificate",
		}},
		"no webhooks": {func(i *doctor.Installation) { i.Mutating, i.Validating = nil, nil }, []string{
			"error MutatingWebhookConfigurations Berth has no MutatingWebhookConfiguration, so objects are admitted without a decision of policies", "error ValidatingWebhookConfigurations Berth has no ValidatingWebhookConfiguration",
		}},
		"no webhooks are needed": {func(i *doctor.Installation) { i.Mutating, i.Validating, i.Objects = nil, nil, nil }, nil},
		"old status":             {func(i *doctor.Installation) { i.Objects[0].Generation = 2 }, []string{"error PlacementPolicy p its status is older than its spec"}},
		"not ready": {func(i *doctor.Installation) {
			i.Objects[0].Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "CompileFailed", Message: "p.rego:1:1: no"}}
		}, []string{"error PlacementPolicy p is not ready: CompileFailed: p.rego:1:1: no"}},
		"ambiguous clusters": {func(i *doctor.Installation) {
			i.Objects[0].Conditions = append(i.Objects[0].Conditions, metav1.Condition{Type: "Replicated", Status: metav1.ConditionTrue, Reason: "AmbiguousClusters", Message: "cluster prod is ambiguous"})
		}, []string{"warning PlacementPolicy p cluster prod is ambiguous"}},
		"paused": {func(i *doctor.Installation) {
			i.Objects[0].Conditions = append(i.Objects[0].Conditions, metav1.Condition{Type: "Paused", Status: metav1.ConditionTrue, Reason: "BlastRadius", Message: "5 of 10"})
		}, []string{"warning PlacementPolicy p its remediation is paused: 5 of 10"}},
		"paused in a namespace": {func(i *doctor.Installation) {
			i.Objects[0].Conditions = append(i.Objects[0].Conditions, metav1.Condition{Type: "Paused", Status: metav1.ConditionFalse, Reason: "NamespacesPaused", Message: "5 of 10 in namespace a"})
		}, []string{"warning PlacementPolicy p its remediation is paused: 5 of 10 in namespace a"}},
		"plan to approve": {func(i *doctor.Installation) {
			i.Objects[0].Conditions = append(i.Objects[0].Conditions, metav1.Condition{Type: "Paused", Status: metav1.ConditionTrue, Reason: "WaitingForApproval", Message: "plan d moves 3 objects"})
		}, []string{"warning PlacementPolicy p its plan is not approved: plan d moves 3 objects"}},
		"plan for one object": {func(i *doctor.Installation) {
			i.Objects[0].Plan = &placementv1.RemediationPlan{State: placementv1.PlanWaitingForApproval, Moves: 1}
		}, []string{"warning PlacementPolicy p 1 object waits for an approval of the plan of PlacementPolicy p (kubectl berth approve p)"}},
		"stage to approve": {func(i *doctor.Installation) {
			i.Objects[0].Rollout = &placementv1.RolloutStatus{State: placementv1.RolloutWaitingForApproval, ApprovalID: "4-half-x", PreviousRevision: 2}
		}, []string{"warning PlacementPolicy p its rollout waits for an approval of the next stage of PlacementPolicy p (kubectl berth approve p)"}},
		"paused rollout": {func(i *doctor.Installation) {
			i.Objects[0].Rollout = &placementv1.RolloutStatus{State: placementv1.RolloutPaused, Message: "3 objects failed", PreviousRevision: 2}
		}, []string{`warning PlacementPolicy p its rollout is paused: 3 objects failed; to roll back: kubectl patch plpol p --type=merge -p '{"spec":{"rollout":{"revision":2}}}'`}},
		"paused first rollout": {func(i *doctor.Installation) {
			i.Objects[0].Rollout = &placementv1.RolloutStatus{State: placementv1.RolloutPaused, Message: "3 objects failed"}
		}, []string{"warning PlacementPolicy p its rollout is paused: 3 objects failed"}},
		"rollout that goes on": {func(i *doctor.Installation) {
			i.Objects[0].Rollout = &placementv1.RolloutStatus{State: placementv1.RolloutSoaking, Message: "stage half soaks"}
		}, nil},
		"no rights": {func(i *doctor.Installation) {
			i.Denied = []doctor.Denied{{Policy: "p", Verb: "list", Resource: "secrets"}}
		}, []string{"error PlacementPolicy p reads secrets, which Berth may not list"}},
		"clock": {func(i *doctor.Installation) { i.LocalTime = now.Add(-time.Minute) }, []string{"warning the clock the clocks of this machine and of the API server differ by 1m0s"}},
		"unread Lease": {func(i *doctor.Installation) {
			i.Lease, i.Unread = nil, []doctor.Unread{{Object: doctor.ObjectLease, Err: errors.New("forbidden")}}
		}, []string{"warning Lease berth.placement.berth.dev is not checked: forbidden"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := sound(t)
			test.damage(&i)
			var got []string
			for n, f := range doctor.Check(i) {
				text := string(f.Severity) + " " + f.Object + " " + f.Message
				if n < len(test.want) && strings.HasPrefix(text, test.want[n]) {
					text = test.want[n]
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRunbook checks that the runbook has the sections that findings name.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if title := strings.TrimLeft(line, "#"); title != line {
			sections[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = true
		}
	}
	i := sound(t)
	i.Mutating, i.Validating, i.Lease = nil, nil, nil
	i.Deployment.Status.ReadyReplicas = 0
	i.Denied = []doctor.Denied{{Policy: "p", Verb: "list", Resource: "secrets"}}
	i.Objects[0].Conditions = []metav1.Condition{{Type: "Ready", Reason: "CompileFailed"}, {Type: "Paused", Status: metav1.ConditionTrue, Reason: "BlastRadius"}}
	findings := doctor.Check(i)
	if len(findings) < 7 {
		t.Errorf("findings: %v", findings)
	}
	for _, f := range findings {
		if f.Runbook != "" && !sections[f.Runbook] {
			t.Errorf("%s: the runbook has no section %s", f.Object, f.Runbook)
		}
	}
}
