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

package rulesoracle

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Node is a node of the served cluster.
type Node struct {
	Name   string
	Labels map[string]string
}

// scheduling returns the members of a pod's spec that a rule sets, apart from the affinity, and from the pods that a spread
// constraint counts.
func scheduling(rule *placementv1.Rule, object map[string]any) map[string]any {
	out := map[string]any{}
	if set := rule.Set; set != nil {
		if len(set.NodeSelector) > 0 {
			selector := map[string]any{}
			for key, value := range set.NodeSelector {
				selector[key] = string(value)
			}
			out["nodeSelector"] = selector
		}
		if set.PriorityClassName != "" {
			out["priorityClassName"] = set.PriorityClassName
		}
		if set.SchedulerName != "" {
			out["schedulerName"] = set.SchedulerName
		}
	}
	if rule.Candidates == placementv1.RuleCandidatesNodes {
		nodeScheduling(rule, object, out)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func nodeScheduling(rule *placementv1.Rule, object, out map[string]any) {
	var tolerations []any
	for _, t := range rule.Tolerate {
		toleration := map[string]any{}
		for field, value := range map[string]string{"key": t.Key, "operator": string(t.Operator), "value": t.Value, "effect": t.Effect} {
			if value != "" {
				toleration[field] = value
			}
		}
		tolerations = append(tolerations, toleration)
	}
	if tolerations != nil {
		out["tolerations"] = tolerations
	}
	// Without labels, there are no pods to spread.
	if rule.Spread == nil || len(podLabels(object)) == 0 {
		return
	}
	constraint := map[string]any{
		"maxSkew": int64(1), "whenUnsatisfiable": string(corev1.DoNotSchedule),
		"topologyKey": nodeLabel(placementv1.Subject{Field: rule.Spread.Field, Label: rule.Spread.Label}),
	}
	if rule.Spread.MinDomains > 0 {
		constraint["minDomains"] = int64(rule.Spread.MinDomains)
	}
	out["topologySpreadConstraints"] = []any{constraint}
}

// podLabels returns the labels that all pods of an object have, before and after it is created.
func podLabels(object map[string]any) map[string]string {
	var out map[string]string
	switch template, _ := specField(object, "template").(map[string]any); object["kind"] {
	case "Pod":
		out = metadata(object, "labels")
	case "CronJob":
		job, _ := specField(object, "jobTemplate").(map[string]any)
		template, _ = specField(job, "template").(map[string]any)
		fallthrough
	default:
		out = metadata(template, "labels")
	}
	for _, key := range ownLabels {
		delete(out, key)
	}
	return out
}

// ownLabels are the labels that Kubernetes sets, and that tell the pods of an object apart, or a Job from its manifest.
var ownLabels = []string{
	"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index",
	"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name",
}

// nodeLabel returns the key of the label of nodes that a subject names.
func nodeLabel(s placementv1.Subject) string {
	switch s.Field {
	case placementv1.ClusterFieldRegion:
		return corev1.LabelTopologyRegion
	case placementv1.ClusterFieldZone:
		return corev1.LabelTopologyZone
	}
	return s.Label
}

// Fits reports whether the pods of an object that a rule with candidates: Nodes decides may run on a node.
func Fits(rule *placementv1.Rule, object map[string]any, node Node) bool {
	for i := range rule.Require {
		if !nodeMeets(&rule.Require[i], object, node) {
			return false
		}
	}
	return true
}

// Score returns the sum of the weights of a rule's preferences that a node meets.
func Score(rule *placementv1.Rule, object map[string]any, node Node) int64 {
	sum := int64(0)
	for i := range rule.Prefer {
		if nodeMeets(&rule.Prefer[i].Requirement, object, node) {
			sum += int64(rule.Prefer[i].Weight)
		}
	}
	return sum
}

func nodeMeets(r *placementv1.Requirement, object map[string]any, node Node) bool {
	value, ok := node.Name, true
	if r.Field != placementv1.ClusterFieldName {
		value, ok = node.Labels[nodeLabel(r.Subject)]
	}
	switch r.Operator {
	case placementv1.OperatorExists:
		return ok
	case placementv1.OperatorDoesNotExist:
		return !ok
	}
	wanted, problem := nodeOperands(r, object)
	switch {
	case problem != "":
		return false
	case r.Operator == placementv1.OperatorIn:
		return ok && slices.Contains(wanted, value)
	case r.Operator == placementv1.OperatorNotIn:
		return !ok || !slices.Contains(wanted, value)
	}
	x, err := strconv.ParseInt(value, 10, 64)
	if err != nil || !ok {
		return false
	}
	y, err := strconv.ParseInt(wanted[0], 10, 64)
	return err == nil && satisfies(r.Operator, cmp.Compare(x, y))
}

var integerForm = regexp.MustCompile(`^[0-9]{1,18}$`)

// nodeOperands returns the values that a requirement of nodes compares with. If the object has none that nodes can have, the problem
// says so.
func nodeOperands(r *placementv1.Requirement, object map[string]any) (values []string, problem string) {
	values, ok := operands(r, object)
	if r.ValueFrom == nil {
		return values, ""
	}
	switch {
	case !ok:
		return nil, "the object has no " + noun(placementv1.Subject{Label: r.ValueFrom.Label, Annotation: r.ValueFrom.Annotation})
	case slices.Contains(orders, r.Operator) && !integerForm.MatchString(values[0]):
		return nil, invalidValue(r.ValueFrom, values[0], "must be an integer from 0 on")
	case r.Field == placementv1.ClusterFieldName && len(validation.IsDNS1123Subdomain(values[0])) > 0:
		return nil, invalidValue(r.ValueFrom, values[0], "must be a valid name of a node")
	case len(validation.IsValidLabelValue(values[0])) > 0:
		return nil, invalidValue(r.ValueFrom, values[0], "must be a value that labels can have")
	}
	return values, ""
}

// nodeErrors returns the errors of an object that does not have what a rule's requirements of nodes compare with.
func nodeErrors(rule *placementv1.Rule, object map[string]any) []string {
	if rule.Candidates != placementv1.RuleCandidatesNodes {
		return nil
	}
	var out []string
	for i := range rule.Require {
		if r := &rule.Require[i]; r.ValueFrom != nil {
			if _, problem := nodeOperands(r, object); problem != "" {
				out = append(out, "rule "+rule.Name+": "+problem)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
