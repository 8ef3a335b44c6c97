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

// Package policyreports_test shows the policy reports that the leader writes, on a real API server.
package policyreports_test

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	openReports = schema.GroupVersion{Group: "openreports.io", Version: "v1alpha1"}
	wgPolicy    = schema.GroupVersion{Group: "wgpolicyk8s.io", Version: "v1alpha2"}

	report              = openReports.WithKind("Report")
	clusterReport       = openReports.WithKind("ClusterReport")
	policyReport        = wgPolicy.WithKind("PolicyReport")
	clusterPolicyReport = wgPolicy.WithKind("ClusterPolicyReport")

	// wagon is a type without namespaces that only these specs know.
	wagon = schema.GroupVersionKind{Group: "inventory.example.com", Version: "v1", Kind: "Wagon"}
)

var (
	f        *framework.Framework
	operator *framework.Manager
)

func TestPolicyReports(t *testing.T) {
	suite.Run(t, "Policy reports")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallCRD(ctx, framework.NewCRD(wagon.Group, wagon.Version, "wagons", wagon.Kind, apiextensionsv1.ClusterScoped))
	startOperator(ctx)
	DeferCleanup(func() { operator.Stop() })
})

func startOperator(ctx context.Context) {
	GinkgoHelper()
	operator = f.StartReadyManager(ctx, func(o *setup.Options) { o.PolicyReports = []string{openReports.Group, wgPolicy.Group} })
	f.AwaitValidation(ctx)
}

// install installs the types of the reports, unless they are there.
func install(ctx context.Context, kinds ...schema.GroupVersionKind) {
	GinkgoHelper()
	for _, kind := range kinds {
		crd := definition(kind)
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{}); !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
			continue
		}
		f.InstallCRD(ctx, crd)
	}
}

// definition returns the published CRD of a report, or one with the fields that Berth writes.
func definition(kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	plural, scope := strings.ToLower(kind.Kind)+"s", apiextensionsv1.NamespaceScoped
	if strings.HasPrefix(plural, "cluster") {
		scope = apiextensionsv1.ClusterScoped
	}
	out := framework.NewCRD(kind.Group, kind.Version, plural, kind.Kind, scope)
	if published, ok := framework.PublishedCRD(kind.Group + "_" + plural + ".yaml"); ok {
		return published
	}
	AddReportEntry("CRD of this suite", out.Name, ReportEntryVisibilityFailureOrVerbose)
	properties := map[string]apiextensionsv1.JSONSchemaProps{"results": list(resultSchema(kind.Group)), "summary": object(map[string]apiextensionsv1.JSONSchemaProps{
		"pass": integer, "fail": integer, "warn": integer, "error": integer, "skip": integer,
	})}
	if kind.Group == openReports.Group {
		properties["source"] = texts
	}
	out.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties = properties
	return out
}

var (
	texts   = apiextensionsv1.JSONSchemaProps{Type: "string"}
	integer = apiextensionsv1.JSONSchemaProps{Type: "integer"}
)

func object(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
}

func list(items apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}
}

func resultSchema(group string) apiextensionsv1.JSONSchemaProps {
	result := texts
	for _, value := range []string{"pass", "fail", "warn", "error", "skip"} {
		result.Enum = append(result.Enum, apiextensionsv1.JSON{Raw: []byte(`"` + value + `"`)})
	}
	out := object(map[string]apiextensionsv1.JSONSchemaProps{
		"policy": texts, "rule": texts, "result": result, "scored": {Type: "boolean"}, "message": texts,
		"resources": list(object(map[string]apiextensionsv1.JSONSchemaProps{"apiVersion": texts, "kind": texts, "namespace": texts, "name": texts, "uid": texts})),
	})
	out.Required = []string{"policy"}
	if group == wgPolicy.Group {
		out.Properties["source"] = texts
	}
	return out
}

// stored returns a report as it is stored.
func stored(ctx context.Context, kind schema.GroupVersionKind, namespace string) (*unstructured.Unstructured, error) {
	return f.Get(ctx, kind, namespace, "berth")
}

// exists reports whether a report is stored.
func exists(ctx context.Context, kind schema.GroupVersionKind, namespace string) (bool, error) {
	_, err := stored(ctx, kind, namespace)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// listed returns the results of a report as "policy: result rule: name".
func listed(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]string, error) {
	o, err := stored(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range resultsOf(o) {
		resources, _ := r["resources"].([]any)
		on, _ := resources[0].(map[string]any)
		out = append(out, r["policy"].(string)+": "+r["result"].(string)+" "+r["rule"].(string)+": "+on["name"].(string))
	}
	return out, nil
}

func resultsOf(o *unstructured.Unstructured) []map[string]any {
	results, _, _ := unstructured.NestedSlice(o.Object, "results")
	out := make([]map[string]any, len(results))
	for i := range results {
		out[i], _ = results[i].(map[string]any)
	}
	return out
}

// summaryOf returns the numbers of a report that are not 0.
func summaryOf(ctx context.Context, kind schema.GroupVersionKind, namespace string) (map[string]int64, error) {
	o, err := stored(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	all, _, err := unstructured.NestedMap(o.Object, "summary")
	out := map[string]int64{}
	for name, value := range all {
		if n, _ := value.(int64); n != 0 {
			out[name] = n
		}
	}
	return out, err
}

// rules are those of a policy that reports and changes nothing. It denies ConfigMaps that are annotated so, can't decide those that
// are annotated so, and sets the tier of all others.
const rules = `package placement

errors contains sprintf("%s is not allowed", [input.metadata.name]) if input.metadata.annotations["example.com/deny"]

annotations[sprintf("%s a key", ["not"])] := "x" if input.metadata.annotations["example.com/break"]

annotations["example.com/tier"] := "gold"
`

// newReporter returns a policy that changes nothing.
func newReporter(group, resource string, namespaces ...string) *placementv1.PlacementPolicy {
	p := framework.NewPolicy(framework.NewName("report"), rules, group, resource, namespaces...)
	p.Spec.Mode = placementv1.ModeDryRun
	return p
}

// onlyReport creates a policy that changes nothing.
func onlyReport(ctx context.Context, group, resource string, namespaces ...string) string {
	GinkgoHelper()
	p := newReporter(group, resource, namespaces...)
	f.CreatePolicy(ctx, p)
	return p.Name
}

// create creates a ConfigMap with annotations.
func create(ctx context.Context, namespace, name string, annotations map[string]string) *unstructured.Unstructured {
	GinkgoHelper()
	o := framework.NewObject(framework.ConfigMap, namespace, name, annotations)
	Expect(f.Client.Create(ctx, o)).To(Succeed())
	return o
}

// annotate changes annotations of a ConfigMap.
func annotate(ctx context.Context, namespace, name string, annotations map[string]string) {
	GinkgoHelper()
	o, err := f.Get(ctx, framework.ConfigMap, namespace, name)
	Expect(err).NotTo(HaveOccurred())
	o.SetAnnotations(annotations)
	Expect(f.Client.Update(ctx, o)).To(Succeed())
}

// identity is what an update in place keeps.
type identity struct {
	uid, version string
}

func identityOf(o metav1.Object) identity {
	return identity{string(o.GetUID()), o.GetResourceVersion()}
}
