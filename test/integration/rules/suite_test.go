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

// Package rules_test shows on a real API server what policies with rules decide, and which rules are refused.
package rules_test

import (
	"context"
	"maps"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

// shortly is for how long nothing must change.
const shortly = 2 * time.Second

var (
	f       *framework.Framework
	manager *framework.Manager
)

// clusters is the namespace of the clusters.
var clusters string

func TestRules(t *testing.T) {
	suite.Run(t, "Rules")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallPlugin(ctx)
	f.InstallClusterProfiles(ctx)
	manager = f.StartReadyManager(ctx)
	DeferCleanup(manager.Stop)
	f.AwaitValidation(ctx)
	clusters = f.NewNamespace(ctx, nil)
})

// createCluster creates a cluster of a region, with these labels and the property pci-level. It is deleted when the spec ends.
func createCluster(ctx context.Context, name, region string, labels map[string]string) {
	GinkgoHelper()
	o := framework.NewObject(framework.ClusterProfile, clusters, name, nil)
	all := map[string]string{corev1.LabelTopologyRegion: region}
	maps.Copy(all, labels)
	o.SetLabels(all)
	o.Object["status"] = map[string]any{"properties": []any{map[string]any{"name": "pci-level", "value": "2"}}}
	f.CreateWithStatus(ctx, o)
	DeferCleanup(f.Client.Delete, o)
}

// label sets a label of a cluster.
func label(ctx context.Context, cluster, key, value string) {
	GinkgoHelper()
	f.MustKubectl(ctx, "", "label", "--overwrite", "clusterprofile", cluster, "-n", clusters, key+"="+value)
}

// newPolicy returns a policy for workloads with rules, which are YAML.
func newPolicy(name, rules string, namespaces ...string) *placementv1.PlacementPolicy {
	GinkgoHelper()
	out := framework.NewPolicy(name, "", "", "", namespaces...)
	out.Spec.Match.ResourceRules = []placementv1.ResourceRule{{
		APIGroups: []string{"apps", "batch"}, APIVersions: []string{"v1"}, Resources: []string{"deployments", "statefulsets", "daemonsets", "jobs", "cronjobs"},
	}}
	Expect(yaml.UnmarshalStrict([]byte(rules), &out.Spec.Rules)).To(Succeed())
	return out
}

// chosen returns the clusters that a Deployment has, as their annotation.
func chosen(ctx context.Context, namespace, name string) (string, error) {
	o, err := f.Get(ctx, framework.Deployment, namespace, name)
	return o.GetAnnotations()[placementv1.ClustersAnnotation], err
}
