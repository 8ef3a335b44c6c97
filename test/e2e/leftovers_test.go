//go:build e2e

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

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// everything returns the version of each object of the cluster and who wrote it when, by its resource, namespace and
// name, except for those that Kubernetes itself creates and deletes.
func everything(ctx context.Context) (map[string]string, error) {
	asks, err := discovery.NewDiscoveryClientForConfig(f.Config)
	if err != nil {
		return nil, err
	}
	reads, err := metadata.NewForConfig(f.Config)
	if err != nil {
		return nil, err
	}
	lists, err := asks.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "get"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains([]string{"events", "leases", "componentstatuses", "nodes", "csinodes", "endpoints", "endpointslices"}, r.Name) {
				continue
			}
			found, err := reads.Resource(version.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", r.Name, err)
			}
			for _, o := range found.Items {
				value := o.ResourceVersion + writers(o.ManagedFields)
				if r.Name == "pods" {
					// A kubelet that is late says once more how its pods are.
					value = writers(slices.DeleteFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "kubelet" }))
				}
				out[fmt.Sprintf("%s.%s %s/%s", r.Name, version.Group, o.Namespace, o.Name)] = value
			}
		}
	}
	return out, nil
}

// writers names the managers of fields and when each wrote last.
func writers(entries []metav1.ManagedFieldsEntry) string {
	var out strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&out, " %s/%s", e.Manager, e.Subresource)
		if e.Time != nil {
			fmt.Fprintf(&out, "@%s", e.Time.UTC().Format(time.TimeOnly))
		}
	}
	return out.String()
}

// existing returns what is there.
func existing(ctx context.Context) map[string]bool {
	GinkgoHelper()
	all, err := everything(ctx)
	Expect(err).NotTo(HaveOccurred())
	out := map[string]bool{}
	for name := range all {
		out[name] = true
	}
	return out
}

// versions returns the resource versions of Berth's objects and of the objects that its policy matches.
func versions(ctx context.Context) (map[string]string, error) {
	all, err := everything(ctx)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return !strings.Contains(name, "berth") && !strings.Contains(name, " "+harbour+"/")
	})
	return all, err
}

// changes lists the differences.
func changes(before, after map[string]string) []string {
	var out []string
	for name, version := range after {
		if before[name] != version {
			out = append(out, fmt.Sprintf("%s: %s, was %s", name, version, before[name]))
		}
	}
	for name := range before {
		if after[name] == "" {
			out = append(out, name+": gone")
		}
	}
	slices.Sort(out)
	return out
}

var errNotOpen = errors.New("the door is not open yet")

// expectNothingLeft waits until the cluster has what it had before Berth was installed, and the API server calls
// no webhook any more. It removes what users created in the harbour.
func expectNothingLeft(ctx context.Context, before map[string]bool) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) ([]string, error) {
		now, err := everything(ctx)
		maps.DeleteFunc(now, func(name, _ string) bool { return before[name] || strings.Contains(name, " "+harbour+"/") })
		return slices.Sorted(maps.Keys(now)), err
	}).WithContext(ctx).Should(BeEmpty())
	Eventually(create).WithContext(ctx).WithArguments("free").Should(Succeed())
	p, err := pod(ctx, "free")
	Expect(err).NotTo(HaveOccurred())
	Expect(p.Annotations).NotTo(HaveKey(berthAnnotation))
	must(ctx, "kubectl --namespace "+harbour+" delete deployment,pod,configmap --all --wait=false")
	Eventually(pods).WithContext(ctx).WithArguments(harbour).Should(BeEmpty())
}

// expectNoTrace expects that no object has anything of Berth's any more.
func expectNoTrace(ctx context.Context) {
	GinkgoHelper()
	all := must(ctx, "kubectl get deployments,replicasets,controllerrevisions,pods,configmaps --all-namespaces --output=json")
	Expect(strings.Contains(all, `"`+placementv1.RequestedAnnotation+`"`)).To(BeFalse())
	Expect(strings.Contains(all, `"`+berthAnnotation+`"`)).To(BeFalse())
}
