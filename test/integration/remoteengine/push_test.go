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

package remoteengine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/framework/faultproxy"
	"github.com/berth-dev/berth/test/framework/opaserver"
)

// clustersKey is what policies that read a fleet set.
const clustersKey = "example.com/clusters"

// newFleet makes a namespace with ClusterProfiles.
func newFleet(ctx context.Context, clusters ...string) string {
	GinkgoHelper()
	fleet := f.NewNamespace(ctx, nil)
	for _, name := range clusters {
		addCluster(ctx, fleet, name)
	}
	// In other specs, these names are not to be ambiguous.
	DeferCleanup(func(ctx SpecContext) {
		Expect(f.Client.DeleteAllOf(ctx, framework.NewObject(framework.ClusterProfile, fleet, "", nil), client.InNamespace(fleet))).To(Succeed())
	})
	return fleet
}

func addCluster(ctx context.Context, fleet, name string) {
	GinkgoHelper()
	obj := framework.NewObject(framework.ClusterProfile, fleet, name, nil)
	Expect(f.Client.Create(ctx, obj)).To(Succeed())
}

func removeCluster(ctx context.Context, fleet, name string) {
	GinkgoHelper()
	Expect(f.Client.Delete(ctx, framework.NewObject(framework.ClusterProfile, fleet, name, nil))).To(Succeed())
}

// relabel sets a label of a ClusterProfile.
func relabel(ctx context.Context, fleet, name, key, value string) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
	Expect(err).NotTo(HaveOccurred())
	Expect(f.Client.Patch(ctx, framework.NewObject(framework.ClusterProfile, fleet, name, nil), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// listed is the rule that sets the names and labels of a fleet's clusters. A server without the fleet's data sets none of them.
func listed(fleet string) string {
	return fmt.Sprintf(`annotations[%q] := concat(",", sort([text |
	some name, cluster in data.kubernetes.clusterprofiles[%q]
	text := concat("/", [t | some t in [name, object.get(cluster, ["metadata", "labels", "turn"], "")]; t != ""])
]))`, clustersKey, fleet)
}

func withReplicated(group, resource string) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) {
		p.Spec.Remote.Replicate = append(p.Spec.Remote.Replicate, placementv1.ReplicatedResource{APIGroup: group, Resource: resource})
	}
}

// withProfiles has the engine supplied with ClusterProfiles.
var withProfiles = withReplicated("multicluster.x-k8s.io", "clusterprofiles")

// withModule has the engine supplied with a module of the package placement.
func withModule(name string, rules ...string) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) {
		p.Spec.Remote.Modules = append(p.Spec.Remote.Modules, placementv1.RemoteModule{Name: name, Rego: framework.Rego(rules...)})
	}
}

// clustersOf returns the clusters that a ConfigMap has.
func clustersOf(ctx context.Context, namespace, name string) (string, error) {
	annotations, err := stored(ctx, namespace, name)
	return annotations[clustersKey], err
}

func expectClusters(ctx context.Context, namespace, name, want string) {
	GinkgoHelper()
	Eventually(clustersOf).WithContext(ctx).WithArguments(namespace, name).Should(Equal(want))
}

// createSoon creates a ConfigMap as soon as it can be decided.
func createSoon(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Eventually(create).WithContext(ctx).WithArguments(namespace, name).Should(Succeed())
}

// profilesOf returns the names of a fleet's clusters that a server has.
func profilesOf(server *opaserver.Server, fleet string) []string {
	GinkgoHelper()
	got, _ := server.GetData("kubernetes/clusterprofiles/" + fleet)
	clusters, _ := got.(map[string]any)
	return slices.Sorted(maps.Keys(clusters))
}

var _ = Describe("Data that Berth keeps in an engine", func() {
	It("is all that there is, and follows every change in order, and existing objects with it", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu-1", "eu-2"), f.NewNamespace(ctx, nil)
		server := startOPA(listed(fleet))
		name := onConfigMaps(ctx, namespace, server.URL()+document, withProfiles)
		expectCondition(ctx, name, placementv1.ConditionReplicated, metav1.ConditionTrue, placementv1.ReasonReplicated)
		createSoon(ctx, namespace, "c")
		expectClusters(ctx, namespace, "c", "eu-1,eu-2")

		addCluster(ctx, fleet, "eu-3")
		expectClusters(ctx, namespace, "c", "eu-1,eu-2,eu-3")
		for turn := range 30 {
			relabel(ctx, fleet, "eu-2", "turn", fmt.Sprint(turn+1))
			if turn%10 == 0 {
				removeCluster(ctx, fleet, "eu-3")
				addCluster(ctx, fleet, "eu-3")
			}
		}
		removeCluster(ctx, fleet, "eu-1")
		expectClusters(ctx, namespace, "c", "eu-2/30,eu-3")
		Expect(profilesOf(server, fleet)).To(Equal([]string{"eu-2", "eu-3"}))
		By("having it in the other forms, too")
		clusters, _ := server.GetData("clusters")
		Expect(clusters).To(HaveKeyWithValue("eu-3", HaveKeyWithValue("namespace", fleet)))
		qualified, _ := server.GetData("resources/multicluster.x-k8s.io%2Fv1alpha1/clusterprofiles/" + fleet)
		Expect(qualified).To(HaveKeyWithValue("eu-2", HaveKeyWithValue("metadata", And(
			HaveKeyWithValue("labels", HaveKeyWithValue("turn", "30")), Not(HaveKey("managedFields"))))))

		By("saying which names of clusters are ambiguous")
		ambiguous := func(ctx context.Context) (metav1.Condition, error) {
			return f.Condition(ctx, name, placementv1.ConditionReplicated)
		}
		Expect(ambiguous(ctx)).To(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonReplicated))
		other := newFleet(ctx, "eu-3", "ap-1")
		Eventually(ambiguous).WithContext(ctx).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonAmbiguousClusters, "cluster eu-3", fleet+"/eu-3", other+"/eu-3"))
		removeCluster(ctx, other, "eu-3")
		Eventually(ambiguous).WithContext(ctx).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonReplicated))
	})

	It("goes with the last policy that lists it, and stays for as long as one does", func(ctx SpecContext) {
		fleet, first, second := newFleet(ctx, "eu-1"), f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		server := startOPA(listed(fleet))
		one := onConfigMaps(ctx, first, server.URL()+document, withProfiles)
		other := onConfigMaps(ctx, second, server.URL()+document, withProfiles, withModule("more", `annotations["example.com/more"] := "yes"`))
		createSoon(ctx, first, "c")
		createSoon(ctx, second, "c")
		f.DeletePolicy(ctx, one)
		addCluster(ctx, fleet, "eu-2")
		expectClusters(ctx, second, "c", "eu-1,eu-2")
		f.DeletePolicy(ctx, other)
		Eventually(func() map[string]string { return server.Policies() }).ShouldNot(HaveKey(ContainSubstring("placement.berth.dev/")))
		Eventually(func() []string { return profilesOf(server, fleet) }).Should(BeEmpty())
	})

	It("goes with the version that lists it, and no request is undecided meanwhile", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu-1"), f.NewNamespace(ctx, nil)
		server := opaserver.Start(GinkgoTB(), opaserver.Options{})
		name := onConfigMaps(ctx, namespace, server.URL()+document, withProfiles, withModule("all", listed(fleet)))
		createSoon(ctx, namespace, "c")
		try := func() (map[string]string, error) {
			obj := framework.NewObject(framework.ConfigMap, namespace, "try", nil)
			err := f.Client.Create(ctx, obj, client.DryRunAll)
			return framework.AnnotationsOf(obj), err
		}
		loading, stop := context.WithCancel(ctx)
		var load sync.WaitGroup
		for range 4 {
			load.Go(func() {
				defer GinkgoRecover()
				for loading.Err() == nil {
					_, err := try()
					Expect(err).NotTo(HaveOccurred())
				}
			})
		}
		for range 5 {
			f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
				p.Spec.Remote.Replicate = nil
				p.Spec.Remote.Modules[0].Rego = framework.Rego(zone("a"))
			})
			Eventually(try).WithContext(ctx).Should(HaveKeyWithValue(zoneKey, "a"))
			Eventually(func() []string { return profilesOf(server, fleet) }).Should(BeEmpty())
			f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
				withProfiles(p)
				p.Spec.Remote.Modules[0].Rego = framework.Rego(listed(fleet))
			})
			Eventually(try).WithContext(ctx).Should(HaveKeyWithValue(clustersKey, "eu-1"))
		}
		stop()
		load.Wait()
	})

	It("is there for a policy that asks in the older form of the data API", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu-1"), f.NewNamespace(ctx, nil)
		server := startOPA(listed(fleet))
		onConfigMaps(ctx, namespace, server.URL()+"/v0/data/placement", withProfiles)
		createSoon(ctx, namespace, "c")
		expectClusters(ctx, namespace, "c", "eu-1")
		addCluster(ctx, fleet, "eu-2")
		expectClusters(ctx, namespace, "c", "eu-1,eu-2")
	})

	It("says in the policy's condition what can't be had", func(ctx SpecContext) {
		server := startOPA(zone("a"))
		namespace := f.NewNamespace(ctx, nil)
		p := elsewhere(namespace, server.URL()+document, withReplicated("nowhere.example.com", "sites"))
		f.CreatePolicy(ctx, p)
		expectCondition(ctx, p.Name, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonNotServed, "nowhere.example.com", "sites")
		Eventually(create).WithContext(ctx).WithArguments(namespace, "c").Should(MatchError(ContainSubstring("PlacementPolicy %q can't decide", p.Name)))
	})

	DescribeTable("is loaded again when the engine has lost it, and nothing passes undecided meanwhile",
		func(ctx SpecContext, undefined placementv1.UndefinedResult, lose func(*opaserver.Server)) {
			fleet, namespace := newFleet(ctx, "eu-1", "eu-2"), f.NewNamespace(ctx, nil)
			server := opaserver.Start(GinkgoTB(), opaserver.Options{})
			name := onConfigMaps(ctx, namespace, server.URL()+document, withProfiles, withModule("all", listed(fleet)), withUndefined(undefined))
			createSoon(ctx, namespace, "before")
			expectClusters(ctx, namespace, "before", "eu-1,eu-2")

			load := startLoad(ctx, namespace, 4)
			lose(server)
			load.awaitAdmitted(ctx, 20)
			addCluster(ctx, fleet, "eu-3")
			expectClusters(ctx, namespace, "before", "eu-1,eu-2,eu-3")
			load.stop()
			expectAllDecided(ctx, namespace, clustersKey, Or(Equal("eu-1,eu-2"), Equal("eu-1,eu-2,eu-3")))
			expectAnswering(ctx, name)
			Expect(profilesOf(server, fleet)).To(Equal([]string{"eu-1", "eu-2", "eu-3"}))
		},
		Entry("since it restarted", placementv1.UndefinedNoOpinion, func(server *opaserver.Server) { server.Restart() }),
		Entry("since somebody deleted the account of it", placementv1.UndefinedNoOpinion, func(server *opaserver.Server) { server.DeleteData("berth") }),
		// What the account says is not looked at for each decision.
		Entry("since somebody deleted its modules behind its back", placementv1.UndefinedError, func(server *opaserver.Server) {
			for id := range server.Policies() {
				server.DeletePolicy(id)
			}
		}),
	)

	It("is loaded again when a change meets a place that is gone", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu-1", "eu-2"), f.NewNamespace(ctx, nil)
		server := startOPA(listed(fleet))
		onConfigMaps(ctx, namespace, server.URL()+document, withProfiles)
		createSoon(ctx, namespace, "c")
		expectClusters(ctx, namespace, "c", "eu-1,eu-2")
		server.DeleteData("kubernetes/clusterprofiles")
		addCluster(ctx, fleet, "eu-3")
		expectClusters(ctx, namespace, "c", "eu-1,eu-2,eu-3")
	})

	It("waits while the engine asks for time, and is the newest then", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu-1", "eu-2"), f.NewNamespace(ctx, nil)
		proxy := startProxy(startOPA(listed(fleet)))
		onConfigMaps(ctx, namespace, proxy.URL()+document, withProfiles)
		createSoon(ctx, namespace, "c")
		pressed := faultproxy.RetryIn(http.StatusTooManyRequests, 1)
		var writes atomic.Int64
		writing := func(fault faultproxy.Fault) {
			proxy.Choose(func(r *http.Request) faultproxy.Fault {
				if r == nil || r.Method == http.MethodGet || r.Method == http.MethodPost {
					return faultproxy.Fault{}
				}
				writes.Add(1)
				return fault
			})
		}
		writing(pressed)
		const changes = 60
		for turn := range changes {
			relabel(ctx, fleet, []string{"eu-1", "eu-2"}[turn%2], "turn", fmt.Sprint(turn))
		}
		Eventually(writes.Load).Should(BeNumerically(">", 0))
		Expect(writes.Load()).To(BeNumerically("<", changes/4), "the engine was not left alone")
		By("going on to decide by what the engine has")
		createSoon(ctx, namespace, "meanwhile")
		Expect(clustersOf(ctx, namespace, "meanwhile")).To(Equal("eu-1,eu-2"))

		before := writes.Load()
		writing(faultproxy.Fault{})
		expectClusters(ctx, namespace, "c", fmt.Sprintf("eu-1/%d,eu-2/%d", changes-2, changes-1))
		expectClusters(ctx, namespace, "meanwhile", fmt.Sprintf("eu-1/%d,eu-2/%d", changes-2, changes-1))
		Expect(writes.Load()-before).To(BeNumerically("<", changes/4), "each change was sent by itself")
	})

	It("is taken over by the next leader, who removes what no policy wants any more", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu-1"), f.NewNamespace(ctx, nil)
		server := opaserver.Start(GinkgoTB(), opaserver.Options{})
		onConfigMaps(ctx, namespace, server.URL()+document, withProfiles, withModule("all", listed(fleet)))
		gone := onConfigMaps(ctx, f.NewNamespace(ctx, nil), server.URL()+"/v1/data/gone", withModule("gone", `labels.x := "y"`))
		createSoon(ctx, namespace, "c")
		stopOperator()
		f.DeletePolicy(ctx, gone)
		addCluster(ctx, fleet, "eu-2")
		startOperator(ctx)
		expectClusters(ctx, namespace, "c", "eu-1,eu-2")
		Eventually(func() []string { return slices.Collect(maps.Keys(server.Policies())) }).Should(ConsistOf(ContainSubstring("/all")))
	})
})

var _ = Describe("Modules that Berth keeps in an engine", func() {
	It("decide, and decide existing objects anew when they change", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		server := opaserver.Start(GinkgoTB(), opaserver.Options{})
		name := onConfigMaps(ctx, namespace, server.URL()+document,
			withModule("helpers", `zone := "a"`), withModule("rules", fmt.Sprintf("annotations[%q] := zone", zoneKey)))
		createSoon(ctx, namespace, "c")
		Expect(stored(ctx, namespace, "c")).To(zoned("a"))
		Expect(server.Policies()).To(And(HaveKey(ContainSubstring(name+"/helpers")), HaveKey(ContainSubstring(name+"/rules"))))

		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Remote.Modules[0].Rego = framework.Rego(`zone := "b"`) })
		Eventually(stored).WithContext(ctx).WithArguments(namespace, "c").Should(zoned("b"))
		expectDecided(ctx, namespace, "b")

		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remote.Modules = []placementv1.RemoteModule{{Name: "rules", Rego: framework.Rego(zone("c"))}}
		})
		Eventually(stored).WithContext(ctx).WithArguments(namespace, "c").Should(zoned("c"))
		Eventually(func() map[string]string { return server.Policies() }).ShouldNot(HaveKey(ContainSubstring(name + "/helpers")))
		f.DeletePolicy(ctx, name)
		Eventually(func() map[string]string { return server.Policies() }).Should(BeEmpty())
	})

	It("that the engine does not take show with OPA's code, and leave nothing undecided", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		server := opaserver.Start(GinkgoTB(), opaserver.Options{})
		// It parses, so that only the engine can know.
		name := elsewhere(namespace, server.URL()+document, withModule("rules", zone("a"), "labels.x := data.nowhere.f(1)"))
		f.CreatePolicy(ctx, name)
		expectCondition(ctx, name.Name, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonPushFailed, "rules", "rego_type_error")
		expectCondition(ctx, name.Name, placementv1.ConditionReady, metav1.ConditionFalse, placementv1.ReasonPushFailed)
		Eventually(create).WithContext(ctx).WithArguments(namespace, "c").Should(MatchError(ContainSubstring("PlacementPolicy %q can't decide", name.Name)))
		Eventually(f.EventNotes).WithContext(ctx).WithArguments(namespace, events.EvaluationFailed.Reason).Should(ContainElement(ContainSubstring(name.Name)))

		f.ChangePolicy(ctx, name.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Remote.Modules[0].Rego = framework.Rego(zone("a")) })
		expectCondition(ctx, name.Name, placementv1.ConditionReplicated, metav1.ConditionTrue, placementv1.ReasonReplicated)
		expectDecided(ctx, namespace, "a")
	})

	It("of another policy are none of a policy's business", func(ctx SpecContext) {
		good, bad := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		server := opaserver.Start(GinkgoTB(), opaserver.Options{})
		onConfigMaps(ctx, good, server.URL()+document, withModule("rules", zone("a")))
		broken := elsewhere(bad, server.URL()+"/v1/data/other", func(p *placementv1.PlacementPolicy) {
			p.Spec.Remote.Modules = []placementv1.RemoteModule{{Name: "rules", Rego: `package other

labels.x := data.nowhere.f(1)
`}}
		})
		f.CreatePolicy(ctx, broken)
		expectCondition(ctx, broken.Name, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonPushFailed)
		expectDecided(ctx, good, "a")
	})
})

var _ = Describe("What an engine decides, as it changes on its own", func() {
	It("moves existing objects at refreshSeconds", func(ctx SpecContext) {
		server := startOPA()
		server.PutPolicy("own", framework.Rego(zone("a")))
		namespace, still := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		refreshed := onConfigMaps(ctx, namespace, server.URL()+document, func(p *placementv1.PlacementPolicy) { p.Spec.Remote.RefreshSeconds = 10 })
		other := onConfigMaps(ctx, still, server.URL()+document)
		Expect(create(ctx, namespace, "c")).To(Succeed())
		Expect(create(ctx, still, "c")).To(Succeed())
		// What is asked once more after that is asked for the sake of refreshSeconds.
		for _, name := range []string{refreshed, other} {
			Eventually(func(ctx context.Context) (*int32, error) {
				p, err := f.Policy(ctx, name)
				return p.Status.Matched, err
			}).WithContext(ctx).Should(HaveValue(BeEquivalentTo(1)))
			expectCondition(ctx, name, placementv1.ConditionCompliant, metav1.ConditionTrue, placementv1.ReasonCompliant)
		}
		server.PutPolicy("own", framework.Rego(zone("b")))
		Eventually(stored).WithContext(ctx).WithArguments(namespace, "c").Should(zoned("b"))
		Expect(stored(ctx, still, "c")).To(zoned("a"))
	})

	It("counts for the same object again for cacheSeconds", func(ctx SpecContext) {
		server := startOPA()
		server.PutPolicy("own", framework.Rego(zone("a")))
		namespace := f.NewNamespace(ctx, nil)
		name := onConfigMaps(ctx, namespace, server.URL()+document, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remote.CacheSeconds, p.Spec.Remediation.Mode = 3600, placementv1.RemediationOff
		})
		Expect(create(ctx, namespace, "c")).To(Succeed())
		// The same update of the same object is the same question.
		ask := func(label string) string {
			GinkgoHelper()
			obj, err := f.Get(ctx, framework.ConfigMap, namespace, "c")
			Expect(err).NotTo(HaveOccurred())
			obj.SetLabels(map[string]string{"asked": label})
			Expect(f.Client.Update(ctx, obj, client.DryRunAll)).To(Succeed())
			return obj.GetAnnotations()[zoneKey]
		}
		Expect(ask("first")).To(Equal("a"))
		server.PutPolicy("own", framework.Rego(zone("b")))
		Expect(ask("first")).To(Equal("a"))
		Expect(ask("another")).To(Equal("b"))
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Remote.CacheSeconds = 0 })
		f.AwaitReady(ctx, name)
		Eventually(func() string { return ask("first") }).Should(Equal("b"))
	})
})
