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

package policyreport_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/policyreport"
	"github.com/berth-dev/berth/internal/remediation"
)

func formatOf(t *testing.T, group string) policyreport.Format {
	t.Helper()
	formats, err := policyreport.Find([]string{group})
	if err != nil {
		t.Fatal(err)
	}
	return formats[0]
}

func TestFind(t *testing.T) {
	for names, want := range map[string]string{
		"":                               "",
		"wgpolicyk8s.io":                 "wgpolicyk8s.io/v1alpha2",
		"openreports.io":                 "openreports.io/v1alpha1",
		"openreports.io,wgpolicyk8s.io":  "openreports.io/v1alpha1 wgpolicyk8s.io/v1alpha2",
		"openreports":                    `"openreports" is no API group of policy reports: use openreports.io or wgpolicyk8s.io`,
		"openreports.io,openreports.io":  `"openreports.io" is named twice`,
		"openreports.io,wgpolicyk8s.io,": `"" is no API group of policy reports: use openreports.io or wgpolicyk8s.io`,
	} {
		var groups, got []string
		if names != "" {
			groups = strings.Split(names, ",")
		}
		formats, err := policyreport.Find(groups)
		for _, f := range formats {
			got = append(got, f.String())
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", names, got, want)
		}
	}
}

// lookup knows Deployments, and the UID of web.
func lookup(key remediation.Key) (string, types.UID) {
	switch {
	case key.Resource.Resource != "deployments":
		return "", ""
	case key.Name == "web":
		return "Deployment", "1234"
	}
	return "Deployment", ""
}

func violation(resource, namespace, name, policy string, outcome remediation.Outcome, message string) remediation.Violation {
	gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
	return remediation.Violation{Key: remediation.Key{Resource: gvr, Namespace: namespace, Name: name}, Policy: policy, Outcome: outcome, Message: message}
}

func TestBuild(t *testing.T) {
	metadata := func(namespace string) map[string]any {
		out := map[string]any{"name": "berth", "labels": map[string]any{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"}}
		if namespace != "" {
			out["namespace"] = namespace
		}
		return out
	}
	summary := func(fail, errors int64) map[string]any {
		return map[string]any{"pass": int64(0), "fail": fail, "warn": int64(0), "error": errors, "skip": int64(0)}
	}
	shop := remediation.Violations{
		Total: map[remediation.Outcome]int{remediation.Denied: 1, remediation.Differs: 1, remediation.Undecided: 1},
		First: []remediation.Violation{
			violation("deployments", "shop", "api", "eu", remediation.Undecided, "no data"),
			violation("deployments", "shop", "web", "eu", remediation.Denied, "not here"),
			violation("deployments", "shop", "web", "tier", remediation.Differs, "annotation a is absent, should be x"),
		},
	}
	rest := remediation.Violations{
		Total: map[remediation.Outcome]int{remediation.Differs: 3},
		First: []remediation.Violation{violation("wagons", "", "w1", "eu", remediation.Differs, "label a is b, should be absent")},
	}
	api, web := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "api"},
		map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "1234"}
	for name, test := range map[string]struct {
		group, namespace string
		violations       remediation.Violations
		want             map[string]any
	}{
		"OpenReports": {"openreports.io", "shop", shop, map[string]any{
			"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "metadata": metadata("shop"), "source": "berth", "summary": summary(2, 1),
			"results": []any{
				map[string]any{"policy": "eu", "rule": "Undecided", "result": "error", "scored": true, "message": "no data", "resources": []any{api}},
				map[string]any{"policy": "eu", "rule": "Denied", "result": "fail", "scored": true, "message": "not here", "resources": []any{web}},
				map[string]any{"policy": "tier", "rule": "Differs", "result": "fail", "scored": true, "message": "annotation a is absent, should be x", "resources": []any{web}},
			},
		}},
		"WGPolicy": {"wgpolicyk8s.io", "shop", shop, map[string]any{
			"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": metadata("shop"), "summary": summary(2, 1),
			"results": []any{
				map[string]any{"policy": "eu", "rule": "Undecided", "result": "error", "scored": true, "message": "no data", "resources": []any{api}, "source": "berth"},
				map[string]any{"policy": "eu", "rule": "Denied", "result": "fail", "scored": true, "message": "not here", "resources": []any{web}, "source": "berth"},
				map[string]any{"policy": "tier", "rule": "Differs", "result": "fail", "scored": true, "message": "annotation a is absent, should be x", "resources": []any{web}, "source": "berth"},
			},
		}},
		"WithoutNamespaceAndNotAllListed": {"openreports.io", "", rest, map[string]any{
			"apiVersion": "openreports.io/v1alpha1", "kind": "ClusterReport", "source": "berth", "summary": summary(3, 0),
			"metadata": map[string]any{
				"name": "berth", "labels": metadata("")["labels"], "annotations": map[string]any{policyreport.OmittedAnnotation: "2"},
			},
			"results": []any{map[string]any{
				"policy": "eu", "rule": "Differs", "result": "fail", "scored": true, "message": "label a is b, should be absent",
				"resources": []any{map[string]any{"apiVersion": "apps/v1", "name": "w1"}},
			}},
		}},
		"ClusterWGPolicy": {"wgpolicyk8s.io", "", remediation.Violations{Total: map[remediation.Outcome]int{remediation.Undecided: 1}}, map[string]any{
			"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "ClusterPolicyReport", "summary": summary(0, 1), "results": []any{},
			"metadata": map[string]any{
				"name": "berth", "labels": metadata("")["labels"], "annotations": map[string]any{policyreport.OmittedAnnotation: "1"},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := formatOf(t, test.group).Build(test.namespace, test.violations, lookup)
			if diff := cmp.Diff(&unstructured.Unstructured{Object: test.want}, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
	if got := formatOf(t, "openreports.io").Build("shop", remediation.Violations{}, lookup); got != nil {
		t.Errorf("a report without violations: %v", got)
	}
}

// TestReportsAreStored checks that the largest report takes less than the API server can store. JSON has six bytes for each
// control character of a message.
func TestReportsAreStored(t *testing.T) {
	const stored = 1.5 * (1 << 20)
	violations := remediation.Violations{Total: map[remediation.Outcome]int{remediation.Differs: 10 * policyreport.MaxResults}}
	for i := range 2 * policyreport.MaxResults {
		violations.First = append(violations.First, violation(
			"deployments", strings.Repeat("n", 63), fmt.Sprintf("%0253d", i), strings.Repeat("p", 253), remediation.Differs, strings.Repeat("\x01", 256),
		))
	}
	for _, group := range []string{"openreports.io", "wgpolicyk8s.io"} {
		report := formatOf(t, group).Build(strings.Repeat("n", 63), violations, func(remediation.Key) (string, types.UID) {
			return strings.Repeat("k", 63), types.UID(strings.Repeat("u", 36))
		})
		text, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		results, _, _ := unstructured.NestedSlice(report.Object, "results")
		if len(results) != policyreport.MaxResults || len(text) > stored {
			t.Errorf("%s: %d results, %d bytes", group, len(results), len(text))
		}
	}
}
