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

// Package policyreport builds policy reports: objects in which policy engines list violations, for the tools that show
// them. Each Format is one API for that. A report lists the violations of all policies in one namespace, or those of the
// objects without a namespace.
package policyreport

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/remediation"
)

const (
	// Name is the name of every report. There is one in each namespace with violations.
	Name = "berth"
	// Source is the name by which the results say that they are from Berth.
	Source = "berth"
	// MaxResults is the maximum number of results of a report. With the longest names and messages they take less than
	// the API server stores of one object, which is 1.5 MiB.
	MaxResults = 500
	// OmittedAnnotation has the number of violations that a report counts and does not list. A complete report has no such
	// annotation.
	OmittedAnnotation = "placement.berth.dev/omitted-results"
)

// reportLabels are the labels of every report.
var reportLabels = map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"}

// Selector returns the label selector of Berth's reports.
func Selector() labels.Selector { return labels.SelectorFromSet(reportLabels) }

// Format is an API group and version of policy reports.
type Format struct {
	version schema.GroupVersion
	// namespaced is the type of the report of a namespace, and cluster that of the report of cluster-scoped objects.
	namespaced, cluster reportType
	// sourceOfReport reports whether a report has a field for the source of all of its results. Otherwise each result has one.
	sourceOfReport bool
}

// reportType is the type of a report: its plural name and its kind.
type reportType struct{ resource, kind string }

// formats are all formats. The first one is the successor of the other.
var formats = []Format{{
	version:    schema.GroupVersion{Group: "openreports.io", Version: "v1alpha1"},
	namespaced: reportType{"reports", "Report"}, cluster: reportType{"clusterreports", "ClusterReport"},
	sourceOfReport: true,
}, {
	version:    schema.GroupVersion{Group: "wgpolicyk8s.io", Version: "v1alpha2"},
	namespaced: reportType{"policyreports", "PolicyReport"}, cluster: reportType{"clusterpolicyreports", "ClusterPolicyReport"},
}}

// Find returns the formats of some API groups, in the order of groups; none for no groups. It returns an error if there is no format of a
// group, or if a group is named twice.
func Find(groups []string) ([]Format, error) {
	var out []Format
	for i, group := range groups {
		at := slices.IndexFunc(formats, func(f Format) bool { return f.version.Group == group })
		if at < 0 {
			known := make([]string, len(formats))
			for i, f := range formats {
				known[i] = f.version.Group
			}
			return nil, fmt.Errorf("%q is no API group of policy reports: use %s", group, strings.Join(known, " or "))
		}
		if slices.Contains(groups[:i], group) {
			return nil, fmt.Errorf("%q is named twice", group)
		}
		out = append(out, formats[at])
	}
	return out, nil
}

// IsReport reports whether a key is that of a report of Berth, in any format, by its name and API group. Reports do not list reports: one
// that violates a policy would never be deleted.
func IsReport(key remediation.Key) bool {
	return key.Name == Name && slices.ContainsFunc(formats, func(f Format) bool { return f.version.Group == key.Resource.Group })
}

// String returns the API group and version.
func (f Format) String() string { return f.version.String() }

// Resource returns the type of the report of a namespace; "" stands for cluster-scoped objects.
func (f Format) Resource(namespace string) schema.GroupVersionResource {
	return f.version.WithResource(f.typeOf(namespace).resource)
}

// Resources returns both types of reports: that of the reports of namespaces, and that of the report of cluster-scoped objects.
func (f Format) Resources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{f.version.WithResource(f.namespaced.resource), f.version.WithResource(f.cluster.resource)}
}

// typeOf returns the type of the report of a namespace: namespaced, or cluster if the namespace is "".
func (f Format) typeOf(namespace string) reportType {
	if namespace == "" {
		return f.cluster
	}
	return f.namespaced
}

// Lookup returns the kind and the UID of an object for a report. Each is "" if it is not known.
type Lookup func(remediation.Key) (kind string, uid types.UID)

// Build returns the report of violations, those in a namespace, or those of cluster-scoped objects if namespace is ""; nil for no
// violations. It lists at most MaxResults and counts all. Equal arguments give equal reports, because a report has no times.
func (f Format) Build(namespace string, violations remediation.Violations, lookup Lookup) *unstructured.Unstructured {
	total := violations.Total
	fails, errors := total[remediation.Denied]+total[remediation.Differs], total[remediation.Undecided]
	if fails+errors == 0 {
		return nil
	}
	listed := violations.First[:min(len(violations.First), MaxResults)]
	results := make([]any, len(listed))
	for i, v := range listed {
		results[i] = f.result(v, lookup)
	}
	out := &unstructured.Unstructured{Object: map[string]any{
		"results": results,
		"summary": map[string]any{"pass": int64(0), "fail": int64(fails), "warn": int64(0), "error": int64(errors), "skip": int64(0)},
	}}
	if f.sourceOfReport {
		out.Object["source"] = Source
	}
	out.SetGroupVersionKind(f.version.WithKind(f.typeOf(namespace).kind))
	out.SetNamespace(namespace)
	out.SetName(Name)
	out.SetLabels(reportLabels)
	if omitted := fails + errors - len(listed); omitted > 0 {
		out.SetAnnotations(map[string]string{OmittedAnnotation: strconv.Itoa(omitted)})
	}
	return out
}

// result returns the result for a violation, as the list in a report has it: "fail", or "error" if a policy can't decide the object.
func (f Format) result(v remediation.Violation, lookup Lookup) map[string]any {
	kind, uid := lookup(v.Key)
	object := map[string]any{"apiVersion": v.Resource.GroupVersion().String(), "name": v.Name}
	for field, value := range map[string]string{"kind": kind, "namespace": v.Namespace, "uid": string(uid)} {
		if value != "" {
			object[field] = value
		}
	}
	result := "fail"
	if v.Outcome == remediation.Undecided {
		result = "error"
	}
	out := map[string]any{
		"policy": v.Policy, "rule": string(v.Outcome), "result": result, "scored": true, "message": v.Message,
		"resources": []any{object},
	}
	if !f.sourceOfReport {
		out["source"] = Source
	}
	return out
}
