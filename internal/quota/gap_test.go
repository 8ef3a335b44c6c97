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

package quota

import (
	"strings"
	"testing"

	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

func TestGap(t *testing.T) {
	e := NewEvaluators(clock.RealClock{}, Devices{})
	const (
		gold      = `{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [gold]}]}`
		goldTried = `{mode: Warn, hard: {pods: 1}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [gold]}]}}`
		anyClass  = `{hard: {pods: 1}, scopes: [PriorityClass]}`
		silver    = `{hard: {pods: 1}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [silver]}]}}`
	)
	for name, tc := range map[string]struct {
		limit, quota string
		others       []string
		want         string
	}{
		"scope":                       {gold, goldTried, nil, "would cover ({PriorityClass In [gold]})"},
		"scope, dry run":              {gold, strings.Replace(goldTried, "Warn", "DryRun", 1), nil, "a quota in mode DryRun covers nothing"},
		"scope, enforced":             {gold, strings.Replace(goldTried, "Warn", "Enforce", 1), nil, ""},
		"scope, another covers":       {gold, goldTried, []string{anyClass}, ""},
		"scope, another in mode Warn": {gold, goldTried, []string{goldTried}, "would cover"},
		"scope, another of its class": {gold, goldTried, []string{silver}, "would cover"},
		"scope of another class":      {gold, `{mode: Warn, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [silver]}]}}`, nil, ""},
		"no scope":                    {gold, `{mode: Warn, hard: {pods: 1}}`, nil, ""},
		"scope without classes":       {`{resource: pods, matchScopes: [{scopeName: BestEffort, operator: Exists}]}`, `{mode: Warn, scopes: [BestEffort]}`, nil, "BestEffort"},
		"name":                        {`{resource: services, matchContains: [loadbalancers]}`, `{mode: Warn, hard: {services.loadbalancers: 1}}`, nil, "would cover (services.loadbalancers)"},
		"name, another covers":        {`{resource: services, matchContains: [loadbalancers]}`, `{mode: Warn, hard: {services.loadbalancers: 1}}`, []string{`{hard: {services.loadbalancers: 1}}`}, ""},
		"name of another type":        {`{resource: services, matchContains: [count]}`, `{mode: Warn, hard: {count/pods: 1}}`, nil, ""},
		"one name of two":             {`{resource: pods, matchContains: [pods]}`, `{hard: {pods: 1}}`, nil, "denies in namespace shop whatever takes pods, which ScopedQuota q covers: the LimitedResource limits count/pods too"},
		"both names":                  {`{resource: pods, matchContains: [pods]}`, `{hard: {pods: 1, count/pods: 1}}`, nil, ""},
		"both names, in two quotas":   {`{resource: pods, matchContains: [pods]}`, `{hard: {pods: 1}}`, []string{`{hard: {count/pods: 1}}`}, ""},
		"one name is limited":         {`{resource: pods, matchContains: [count/pods]}`, `{hard: {count/pods: 1}}`, nil, ""},
		"requests":                    {`{resource: pods, matchContains: [memory]}`, `{hard: {requests.memory: 1Gi}}`, nil, "the LimitedResource limits memory too"},
		"limits":                      {`{resource: pods, matchContains: [memory]}`, `{hard: {limits.memory: 1Gi}}`, nil, ""},
		"requests, the long name":     {`{resource: pods, matchContains: [requests.memory]}`, `{hard: {requests.memory: 1Gi}}`, nil, ""},
		"an old name":                 {`{resource: secrets, matchContains: [secrets]}`, `{hard: {secrets: 1}}`, nil, "add count/secrets"},
		"no old name":                 {`{apiGroup: apps, resource: deployments, matchContains: [deployments]}`, `{hard: {count/deployments.apps: 1}}`, nil, ""},
		"requests of storage":         {`{resource: persistentvolumeclaims, matchContains: [requests.storage]}`, `{hard: {requests.storage: 1Gi}}`, nil, ""},
		"extended resources":          {`{resource: pods, matchContains: [gpu]}`, `{hard: {requests.nvidia.com/gpu: 1}}`, nil, ""},
		"devices":                     {`{apiGroup: resource.k8s.io, resource: resourceclaims, matchContains: [deviceclass]}`, `{hard: {gpus.deviceclass.resource.k8s.io/devices: 1}}`, nil, "add requests.deviceclass.resource.kubernetes.io/gpus"},
		"devices, the other name":     {`{apiGroup: resource.k8s.io, resource: resourceclaims, matchContains: [gpus]}`, `{hard: {gpus.deviceclass.resource.k8s.io/devices: 1}}`, []string{`{hard: {requests.deviceclass.resource.kubernetes.io/gpus: 1}}`}, ""},
		"devices, one name":           {`{apiGroup: resource.k8s.io, resource: resourceclaims, matchContains: [/devices]}`, `{hard: {gpus.deviceclass.resource.k8s.io/devices: 1}}`, nil, ""},
		"huge pages":                  {`{resource: pods, matchContains: [hugepages]}`, `{hard: {hugepages-2Mi: 1Gi}}`, nil, "add requests.hugepages-2Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			quota := func(spec string) placementv1.Quota {
				q := &placementv1.ScopedQuota{}
				q.Name, q.Namespace = "q", "shop"
				q.Spec.QuotaSpec = *parsed[placementv1.QuotaSpec](t, spec)
				return q
			}
			limit := &placementv1.LimitedResource{Spec: *parsed[placementv1.LimitedResourceSpec](t, tc.limit)}
			limit.Name = "l"
			var others []placementv1.Quota
			for _, spec := range tc.others {
				others = append(others, quota(spec))
			}
			got := e.CoverageGap(limit, quota(tc.quota), others, "shop")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
