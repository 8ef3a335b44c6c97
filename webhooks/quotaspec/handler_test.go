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

package quotaspec_test

import (
	"context"
	"iter"
	"maps"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/webhooks/quotaspec"
)

// world is a fake API server with pods, deployments, nodes, two namespaces, and one priority class.
type world struct{}

func (world) Served() *match.ServedTypes {
	of := func(group, plural, kind string, namespaced bool) match.ServedType {
		return match.ServedType{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}, Kind: kind, Singular: strings.ToLower(kind), Namespaced: namespaced}
	}
	return match.NewServedTypes([]match.ServedType{
		of("", "pods", "Pod", true), of("", "configmaps", "ConfigMap", true), of("", "services", "Service", true), of("", "nodes", "Node", false), of("", "events", "Event", true), of("", "persistentvolumes", "PersistentVolume", false),
		of("", "persistentvolumeclaims", "PersistentVolumeClaim", true), of("apps", "deployments", "Deployment", true), of("batch", "jobs", "Job", true),
		of("resource.k8s.io", "resourceclaims", "ResourceClaim", true),
	})
}

func (world) Refresh(context.Context) error { return nil }

func (world) All(context.Context) (iter.Seq2[string, map[string]string], error) {
	return maps.All(map[string]map[string]string{
		"kube-system": {"kubernetes.io/metadata.name": "kube-system", "team": "platform"},
		"shop":        {"kubernetes.io/metadata.name": "shop", "team": "retail"},
	}), nil
}

func (world) Names(context.Context) ([]string, error) { return []string{"gold"}, nil }

func (world) nodes() nodes { return nodes{"nvidia.com/gpu", "nvidia.com/mig-1g.10gb"} }

// nodes are the extended resources of nodes.
type nodes []string

func (n nodes) ExtendedResources(context.Context) ([]string, bool, error) { return n, n != nil, nil }

// names are the names of existing classes.
type names []string

func (n names) Names(context.Context) ([]string, error) { return n, nil }

func TestWarnings(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := placementv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	h := &quotaspec.Handler{
		Catalog: world{}, Evaluators: quota.NewEvaluators(clock.RealClock{}, quota.Devices{}), Namespaces: world{}, Classes: world{},
		StorageClasses: names{"fast-sdd", "standard"}, VolumeAttributesClasses: names{"gold"},
		Nodes:        world{}.nodes(),
		OwnNamespace: "berth-system", Decoder: admission.NewDecoder(scheme), Live: fake.NewClientBuilder().WithScheme(scheme).Build(),
	}
	const scoped, cluster, limited = "ScopedQuota", "ClusterScopedQuota", "LimitedResource"
	for name, tc := range map[string]struct {
		kind, spec string
		// want is part of the only warning; "" for none.
		want string
	}{
		"pods":              {scoped, `{hard: {pods: 2, requests.cpu: 3, count/deployments.apps: 2, count/configmaps: 1}}`, ""},
		"singular":          {scoped, `{hard: {count/deployment.apps: 2}}`, "spec.hard[count/deployment.apps]: the API server serves no deployment.apps in namespaces (did you mean deployments.apps?)"},
		"unserved":          {scoped, `{hard: {count/widgets.example.com: 2}}`, "serves no widgets.example.com in namespaces: nothing is counted"},
		"no group":          {scoped, `{hard: {count/deployments: 2}}`, "(did you mean deployments.apps?)"},
		"other group":       {cluster, `{hard: {count/pods.core: 2}, namespaceSelector: {}}`, "(did you mean pods?)"},
		"version":           {scoped, `{hard: {count/jobs.v1.batch: 2}}`, "(did you mean jobs.batch?)"},
		"cluster-scoped":    {scoped, `{hard: {count/persistentvolumes: 2}}`, "spec.hard[count/persistentvolumes]: the API server serves no persistentvolumes in namespaces: these objects are in no namespace, and quotas count only objects in namespaces"},
		"never: events":     {scoped, `{hard: {count/events: 2}}`, "spec.hard[count/events]: Berth counts nothing under this name: events are never counted, so that a full quota can't stop the cluster. Remove the name"},
		"never: new events": {scoped, `{hard: {count/events.events.k8s.io: 2}}`, ": events.events.k8s.io are never counted"},
		"never: nodes":      {scoped, `{hard: {count/nodes: 2}}`, ": nodes are never counted"},
		"never: leases":     {scoped, `{hard: {count/leases.coordination.k8s.io: 2}}`, ": leases.coordination.k8s.io are never counted"},
		"never: quotas":     {scoped, `{hard: {count/scopedquotas.placement.berth.dev: 2}}`, ": scopedquotas.placement.berth.dev are never counted"},
		"never: singular":   {scoped, `{hard: {count/event: 2}}`, "serves no event in namespaces: nothing is counted"},
		"never: no count":   {scoped, `{hard: {events/count: 2}}`, "Berth counts nothing under this name"},
		"no count":          {scoped, `{hard: {deployments.apps/count: 2}}`, "Berth counts nothing under this name (did you mean count/deployments.apps?)"},
		"known class":       {scoped, `{hard: {pods: 2}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [gold]}]}}`, ""},
		"any class":         {scoped, `{hard: {pods: 2}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}}`, ""},
		"unknown class":     {scoped, `{hard: {pods: 2}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [golf]}]}}`, "there is no PriorityClass golf (did you mean gold?)"},
		"no hard":           {cluster, `{namespaceSelector: {matchLabels: {team: retail}}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [gold]}]}}`, "spec.hard is empty: the quota limits nothing"},
		"empty hard":        {scoped, `{hard: {}}`, "spec.hard is empty: the quota limits nothing"},
		"storage class":     {scoped, `{hard: {standard.storageclass.storage.k8s.io/requests.storage: 100Gi, standard.storageclass.storage.k8s.io/persistentvolumeclaims: 2}}`, ""},
		"no storage class":  {scoped, `{hard: {fast-ssd.storageclass.storage.k8s.io/requests.storage: 100Gi, fast-ssd.storageclass.storage.k8s.io/persistentvolumeclaims: 2}}`, "spec.hard: there is no StorageClass fast-ssd (did you mean fast-sdd?): no volume of the class is provisioned until the class is created"},
		"volume class":      {scoped, `{hard: {persistentvolumeclaims: 2}, scopeSelector: {matchExpressions: [{scopeName: VolumeAttributesClass, operator: In, values: [gold]}]}}`, ""},
		"no volume class":   {scoped, `{hard: {persistentvolumeclaims: 2}, scopeSelector: {matchExpressions: [{scopeName: VolumeAttributesClass, operator: In, values: [golf]}]}}`, "spec.scopeSelector: there is no VolumeAttributesClass golf (did you mean gold?)"},
		"no device class":   {scoped, `{hard: {gpus.deviceclass.resource.k8s.io/devices: 4, requests.deviceclass.resource.kubernetes.io/gpus: 4}}`, "spec.hard: there is no DeviceClass gpus: no device of the class is allocated until the class is created"},
		"devices, singular": {scoped, `{hard: {gpu.deviceclass.resource.k8s.io/device: 4}}`, "Berth counts nothing under this name (did you mean gpu.deviceclass.resource.k8s.io/devices?)"},
		"devices, plural":   {scoped, `{hard: {gpu.deviceclasses.resource.k8s.io/devices: 4}}`, "(did you mean gpu.deviceclass.resource.k8s.io/devices?)"},
		"devices, domain":   {scoped, `{hard: {gpu.deviceclass.resource.kubernetes.io/devices: 4}}`, "(did you mean gpu.deviceclass.resource.k8s.io/devices?)"},
		"devices, no class": {scoped, `{hard: {deviceclass.resource.k8s.io/devices: 4}}`, "(did you mean <class>.deviceclass.resource.k8s.io/devices?)"},
		"devices, requests": {scoped, `{hard: {deviceclass.resource.kubernetes.io/gpu: 4}}`, "(did you mean requests.deviceclass.resource.kubernetes.io/gpu?)"},
		"devices, counted":  {scoped, `{hard: {requests.deviceclass.resource.k8s.io/gpu: 4}}`, "spec.hard[requests.deviceclass.resource.k8s.io/gpu]: this name counts requests of pods for an extended resource, not devices of a DeviceClass (did you mean requests.deviceclass.resource.kubernetes.io/gpu?)"},
		"devices, of both":  {scoped, `{hard: {requests.gpu.deviceclass.resource.k8s.io/device: 4}}`, "this name counts requests of pods for an extended resource, not devices of a DeviceClass (did you mean gpu.deviceclass.resource.k8s.io/devices?)"},
		"device claims":     {scoped, `{hard: {count/resourceclaims.resource.k8s.io: 4}}`, ""},
		"extended requests": {scoped, `{hard: {requests.nvidia.com/gpu: 4}}`, ""},
		"extended limits":   {scoped, `{hard: {limits.nvidia.com/gpu: 4}}`, "spec.hard[limits.nvidia.com/gpu]: Berth counts nothing under this name: extended resources are counted by their requests alone (did you mean requests.nvidia.com/gpu?)"},
		"extended, bare":    {scoped, `{hard: {nvidia.com/mig-1g.10gb: 4}}`, "spec.hard[nvidia.com/mig-1g.10gb]: Berth counts nothing under this name (did you mean requests.nvidia.com/mig-1g.10gb?)"},
		"part of services":  {scoped, `{hard: {count/services.loadbalancers: 0}}`, "the API server serves no services.loadbalancers in namespaces (did you mean services.loadbalancers, without count/?)"},
		"part, misspelt":    {scoped, `{hard: {count/services.nodeport: 0}}`, "(did you mean services.nodeports, without count/?)"},
		"part of pods":      {scoped, `{hard: {count/requests.cpu: 2}}`, "(did you mean requests.cpu, without count/?)"},
		"unknown part":      {scoped, `{hard: {count/pods.requests: 0}}`, "serves no pods.requests in namespaces: nothing is counted"},
		"core in v1":        {scoped, `{hard: {count/pods.v1: 2}}`, "(did you mean pods?)"},
		"all namespaces":    {cluster, `{hard: {pods: 2}, namespaceSelector: {}}`, ""},
		"some namespaces":   {cluster, `{hard: {pods: 2}, namespaceSelector: {matchLabels: {team: retail}}}`, ""},
		"selector not set":  {cluster, `{hard: {pods: 2}}`, "spec.namespaceSelector is not set: all namespaces share the amounts of spec.hard"},
		"one misspelt":      {cluster, `{hard: {pods: 2}, namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [shop, shopp]}]}}`, `spec.namespaceSelector.matchExpressions[0]: no namespace has the value "shopp" of label kubernetes.io/metadata.name now; there are "shop"`},
		"no node has it":    {scoped, `{hard: {requests.nvidia.com/gpus: 4}}`, "spec.hard[requests.nvidia.com/gpus]: no node has the resource nvidia.com/gpus now; there are nvidia.com/gpu, nvidia.com/mig-1g.10gb"},
		"GPUs in bytes":     {scoped, `{hard: {requests.nvidia.com/gpu: 4Gi}}`, "spec.hard[requests.nvidia.com/gpu]: 4Gi is the number 4294967296: a plain number is probably meant"},
		"no namespaces":     {cluster, `{hard: {pods: 2}, namespaceSelector: {matchLabels: {team: payments}}}`, "spec.namespaceSelector selects none of the namespaces that there are"},
		"protected only":    {cluster, `{hard: {pods: 2}, namespaceSelector: {matchLabels: {team: platform}}}`, "selects none of the namespaces"},
		"protected by name": {cluster, `{hard: {pods: 2}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: berth-system}}}`, "it selects berth-system only"},
		"limit":             {limited, `{resource: pods, matchContains: [pods]}`, ""},
		"milli":             {scoped, `{hard: {memory: 512m}}`, "spec.hard[memory]: 512m is 0.512 bytes"},
		"scopes exclude":    {scoped, `{hard: {pods: 2}, scopes: [Terminating], scopeSelector: {matchExpressions: [{scopeName: NotTerminating, operator: Exists}]}}`, "no object matches both"},
		"scope of pods":     {scoped, `{hard: {count/jobs.batch: 2}, scopes: [Terminating]}`, "jobs.batch do not have the scope Terminating"},
		"limit, glob":       {limited, `{resource: pods, matchContains: ["requests.*"]}`, `not patterns, and no resource name contains this (did you mean "requests."?)`},
		"limit, of pods":    {limited, `{apiGroup: apps, resource: deployments, matchContains: [requests.cpu]}`, "did you mean spec.resource pods?"},
		"limit, of no node": {limited, `{resource: pods, matchContains: [requests.nvidia.com/gpus]}`, "spec.matchContains[0]: no node has a resource whose name contains nvidia.com/gpus now; there are nvidia.com/gpu, nvidia.com/mig-1g.10gb"},
		"limit, extended":   {limited, `{resource: pods, matchContains: [requests.nvidia.com/gpu, nvidia.com/mig, "nvidia.com/", gpus]}`, ""},
		"limit, kind":       {limited, `{resource: Pod, matchContains: [pods]}`, "spec.resource: the API server serves no Pod in namespaces (did you mean pods?)"},
		"limit, class":      {limited, `{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [silver]}]}`, "there is no PriorityClass silver"},
		"limit, namespaces": {limited, `{resource: pods, matchContains: [pods], namespaceSelector: {matchLabels: {team: none}}}`, "selects none"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte("apiVersion: placement.berth.dev/v1alpha1\nkind: " + tc.kind + "\nmetadata: {name: q}\nspec: " + tc.spec))
			if err != nil {
				t.Fatal(err)
			}
			r := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind{Group: placementv1.GroupVersion.Group, Version: "v1alpha1", Kind: tc.kind}, Object: runtime.RawExtension{Raw: raw},
			}})
			if !r.Allowed {
				t.Fatalf("refused: %v", r.Result)
			}
			if joined := strings.Join(r.Warnings, "; "); (joined == "") != (tc.want == "") || !strings.Contains(joined, tc.want) || len(r.Warnings) > 1 {
				t.Errorf("warnings %q, want %q", r.Warnings, tc.want)
			}
		})
	}
}
