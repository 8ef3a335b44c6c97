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

// Package admission_test shows what the webhooks do, on a real API server.
package admission_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

const (
	preferences = "federation.kubernetes.io/replica-set-preferences"
	eu          = "policy.federation.alpha.kubernetes.io/eu-jurisdiction-required"
	pci         = "policy.federation.alpha.kubernetes.io/pci-compliance-level"
)

// federatedCluster is the inventory of the design that the seed describes.
var federatedCluster = schema.GroupVersionKind{Group: "federation.k8s.io", Version: "v1beta1", Kind: "Cluster"}

var (
	f *framework.Framework
	// operator is nil while it is stopped.
	operator *framework.Manager
)

func TestAdmission(t *testing.T) {
	suite.Run(t, "Admission")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	path, audit := framework.AuditLog([]string{"create", "update", "patch"}, []string{"configmaps", "services"})
	auditLog = path
	f = framework.Start(ctx, audit)
	DeferCleanup(f.Stop)
	DeferCleanup(stopOperator)
	f.InstallCRD(ctx, framework.NewCRD("federation.k8s.io", "v1beta1", "clusters", "Cluster", apiextensionsv1.ClusterScoped))
	for name, c := range map[string]struct{ region, pci, certified string }{
		"gce-europe-west1": {"europe-west1", "2", "true"},
		"gce-europe-west2": {"europe-west2", "3", "false"},
		"gce-europe-north": {"europe-north1", "1", "false"},
		"gce-us-central1":  {"us-central1", "2", "true"},
	} {
		cluster := framework.NewObject(federatedCluster, "", name, map[string]string{"example.com/pci-certified": c.certified})
		cluster.SetLabels(map[string]string{"pci-compliance-level": c.pci})
		cluster.Object["status"] = map[string]any{"region": c.region, "zones": []any{c.region + "-a"}}
		f.CreateWithStatus(ctx, cluster)
	}
})

// Every spec finds the operator running and ready, whatever the spec before did to it.
var _ = BeforeEach(startOperator)

func startOperator(ctx SpecContext) {
	GinkgoHelper()
	if operator != nil {
		return
	}
	operator = f.StartReadyManager(ctx)
	f.AwaitValidation(ctx)
}

func stopOperator() { framework.StopManager(&operator) }

// stored returns the annotations of an object as it is stored.
func stored(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) map[string]string {
	GinkgoHelper()
	obj, err := f.Get(ctx, gvk, namespace, name)
	Expect(err).NotTo(HaveOccurred())
	return framework.AnnotationsOf(obj)
}

// workloadWebhooks returns the webhooks for workloads.
func workloadWebhooks(ctx context.Context) ([]admissionregistrationv1.MutatingWebhook, error) {
	list := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	if err := f.Client.List(ctx, list); err != nil {
		return nil, err
	}
	var out []admissionregistrationv1.MutatingWebhook
	for _, c := range list.Items {
		out = append(out, c.Webhooks...)
	}
	return out, nil
}

// jsonOf is text as a field of a policy.
func jsonOf(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }
