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

package install_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/certs"
	"github.com/berth-dev/berth/internal/cleanup"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/framework"
)

// applied are the objects of a developer, in the namespace and with the name of the cluster-scoped object that NAME stands
// for. Each asks for something that policies replace.
const applied = `
apiVersion: example.com/v1
kind: Rack
metadata: {name: NAME, labels: {example.com/mine: developer}, annotations: {example.com/asked: developer}}
spec: {height: 42}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: NAME, labels: {example.com/mine: developer}, annotations: {example.com/asked: developer, placement.berth.dev/clusters: '["eu-2","eu-1"]'}}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: bare, namespace: NAME}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAME, labels: {example.com/mine: developer}, annotations: {example.com/asked: developer}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template: TEMPLATE
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: NAME, annotations: {example.com/asked: developer}}
spec: {replicas: 0, serviceName: web, selector: {matchLabels: {app: web}}, template: TEMPLATE}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web, namespace: NAME}
spec: {selector: {matchLabels: {app: web}}, template: TEMPLATE}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: single, namespace: NAME}
spec: {replicas: 0, selector: {matchLabels: {app: single}}, template: {metadata: {labels: {app: single}}, spec: {containers: [{name: web, image: web}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: web, namespace: NAME}
spec:
  schedule: "0 0 1 1 *"
  suspend: true
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, nodeSelector: {example.com/disk: hdd}, containers: [{name: web, image: web}]}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: suspended, namespace: NAME}
spec: {suspend: true, template: {spec: {restartPolicy: Never, nodeSelector: {example.com/disk: hdd}, containers: [{name: web, image: web}]}}}
`

// template is the pod template that TEMPLATE stands for.
const template = `{metadata: {labels: {app: web}}, spec: {schedulerName: mine, nodeSelector: {example.com/disk: hdd, example.com/own: "yes"},
  tolerations: [{key: example.com/own, operator: Exists}],
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: example.com/own, operator: Exists}]}]}}},
  topologySpreadConstraints: [{topologyKey: zone, whenUnsatisfiable: DoNotSchedule, maxSkew: 5, labelSelector: {matchLabels: {app: web}}}],
  containers: [{name: web, image: web}]}}`

// single is a Pod, whose scheduling fields can't be changed.
const single = `
apiVersion: v1
kind: Pod
metadata: {name: single, namespace: NAME, labels: {example.com/mine: developer}}
spec: {containers: [{name: web, image: web}]}
`

// placedKinds are the kinds that may have a trace of Berth.
var placedKinds = []schema.GroupVersionKind{
	{Group: "example.com", Version: "v1", Kind: "Rack"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Pod"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, {Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "batch", Version: "v1", Kind: "CronJob"}, {Group: "batch", Version: "v1", Kind: "Job"},
}

const placingMetadata = `package placement

annotations["example.com/zone"] := "placed" if own

annotations["example.com/asked"] := "placed" if own

labels["example.com/tier"] := "placed" if own

labels["example.com/mine"] := "placed" if own

clusters := ["eu-1"] if own

# What developers made, not what controllers did.
own if {
	not input.metadata.ownerReferences
	not input.metadata.name in {"shadow", "kube-root-ca.crt"}
}
`

const placingPods = `package placement

scheduling.nodeSelector["example.com/disk"] := "ssd"

scheduling.tolerations := [{"key": "example.com/pci", "operator": "Exists", "effect": "NoSchedule"}]

scheduling.topologySpreadConstraints := [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]

scheduling.affinity := {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "example.com/pci", "operator": "Exists"}]}]}}}

scheduling.schedulerName := "berths"
`

// restartable is a workload that a cleanup that is interrupted leaves half done, in the namespace that NAME stands for. Policies
// match its ReplicaSets, and drop the copy of its record there.
const restartable = `
apiVersion: apps/v1
kind: Deployment
metadata: {generateName: web-, namespace: NAME, labels: {app: web, example.com/mine: developer}, annotations: {example.com/asked: developer}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template: TEMPLATE
`

var _ = Describe("kubectl berth cleanup", Ordered, func() {
	var (
		f      *framework.Framework
		m      *framework.Manager
		placed string
		// earlier has objects that exist before the policies, and asBefore is what they are then.
		earlier  string
		asBefore map[string]map[string]any
		// interrupted have a workload each.
		interrupted []string
		shadow      string
		cluster     = []string{"berth", "cleanup", "--all-namespaces"}
	)

	// objects returns the objects of a namespace and the Racks, by kind and name.
	objects := func(ctx context.Context, namespace string) map[string]*unstructured.Unstructured {
		GinkgoHelper()
		out := map[string]*unstructured.Unstructured{}
		for _, gvk := range placedKinds {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk)
			in := client.InNamespace(namespace)
			if gvk.Kind == "Rack" {
				in = ""
			}
			Expect(f.Client.List(ctx, list, in)).To(Succeed())
			for i := range list.Items {
				out[gvk.Kind+" "+list.Items[i].GetName()] = &list.Items[i]
			}
		}
		return out
	}
	versions := func(ctx context.Context) map[string]string {
		GinkgoHelper()
		out := map[string]string{}
		for name, obj := range objects(ctx, placed) {
			out[name] = obj.GetResourceVersion()
		}
		return out
	}
	// apply applies manifests as the developer does.
	apply := func(ctx context.Context, text, name string, args ...string) (string, error) {
		return f.Kubectl(ctx, strings.NewReplacer("TEMPLATE", template, "NAME", name).Replace(text), append([]string{"apply", "--server-side", "--field-manager=developer", "-f", "-"}, args...)...)
	}
	newPolicy := func(name, rego string, rules ...placementv1.ResourceRule) *placementv1.PlacementPolicy {
		p := framework.NewPolicy(name, rego, "", "")
		p.Spec.Match.ResourceRules = rules
		// Nothing in kube-system and the like, and not the shadow.
		p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{shadow, "default", "kube-public", "kube-node-lease"},
		}}}
		return p
	}
	rule := func(group string, resources ...string) placementv1.ResourceRule {
		return placementv1.ResourceRule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: resources}
	}

	awaitAccount := func(ctx context.Context, namespace string) {
		GinkgoHelper()
		Eventually(func(ctx context.Context) error {
			return f.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
		}).WithContext(ctx).Should(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		f = framework.Start(ctx, framework.WithControllerManager)
		DeferCleanup(f.Stop)
		f.InstallPlugin(ctx)
		f.InstallCRD(ctx, framework.NewCRD("example.com", "v1", "racks", "Rack", apiextensionsv1.ClusterScoped))
		m = f.StartReadyManager(ctx)
		DeferCleanup(func() { m.Stop() })
		placed, earlier = f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		awaitAccount(ctx, earlier)
		out, err := apply(ctx, applied+"---"+single, earlier)
		Expect(err).NotTo(HaveOccurred(), out)
		By("waiting until controllers have made a revision of each workload, and do no more")
		Eventually(func(ctx context.Context) map[string]map[string]any {
			asBefore = map[string]map[string]any{}
			for name, obj := range objects(ctx, earlier) {
				asBefore[name] = asWritten(obj)
			}
			return asBefore
		}).WithContext(ctx).Should(HaveLen(14), "those that were applied, kube-root-ca.crt, and a revision of each of three workloads")
		shadow = "shadow"
		Expect(f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shadow}})).To(Succeed())
		workloads := []placementv1.ResourceRule{rule("apps", "deployments", "statefulsets", "daemonsets", "replicasets"), rule("batch", "cronjobs", "jobs"), rule("", "pods")}
		f.CreateReadyPolicy(ctx, newPolicy("metadata", placingMetadata, append(workloads, rule("", "configmaps"), rule("example.com", "racks"))...))
		f.CreateReadyPolicy(ctx, newPolicy("pods", placingPods, workloads...))
		for _, namespace := range []string{placed, shadow} {
			awaitAccount(ctx, namespace)
			out, err := apply(ctx, applied+"---"+single, namespace)
			Expect(err).NotTo(HaveOccurred(), out)
		}
		for range runs {
			namespace := f.NewNamespace(ctx, nil)
			interrupted = append(interrupted, namespace)
			obj := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(strings.NewReplacer("TEMPLATE", template, "NAME", namespace).Replace(restartable)), obj)).To(Succeed())
			Expect(f.Client.Create(ctx, obj, client.FieldOwner("developer"))).To(Succeed())
		}
		By("waiting until controllers have copied the annotations, the record too unless policies match the copy")
		copies := func(ctx context.Context, namespace string) []string {
			var copied []string
			for _, obj := range objects(ctx, namespace) {
				if obj.GetAnnotations()["example.com/zone"] == "placed" && len(obj.GetOwnerReferences()) > 0 {
					_, recorded := obj.GetAnnotations()[placementv1.RequestedAnnotation]
					copied = append(copied, fmt.Sprintf("%s %t", obj.GetOwnerReferences()[0].Kind, recorded))
				}
			}
			return copied
		}
		Eventually(copies).WithContext(ctx).WithArguments(placed).Should(ConsistOf("Deployment false", "StatefulSet true", "DaemonSet true"))
		for _, namespace := range interrupted {
			Eventually(copies).WithContext(ctx).WithArguments(namespace).Should(ConsistOf("Deployment false"))
		}
		By("waiting until what was there is placed")
		Eventually(func(ctx context.Context) []string {
			var out []string
			for name, obj := range objects(ctx, earlier) {
				if obj.GetAnnotations()["example.com/zone"] != "placed" && len(obj.GetOwnerReferences()) == 0 && obj.GetName() != "kube-root-ca.crt" && obj.GetName() != shadow {
					out = append(out, name)
				}
			}
			return out
		}).WithContext(ctx).Should(BeEmpty())
	})

	It("refuses to run while Berth places objects", func(ctx SpecContext) {
		before := versions(ctx)
		out, err := f.Kubectl(ctx, "", append(cluster, "--yes")...)
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(And(ContainSubstring("mutatingwebhookconfiguration/berth-placement is registered"), ContainSubstring("--force")))
		Expect(versions(ctx)).To(Equal(before))

		namespace := f.NewNamespace(ctx, nil)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "web", nil))).To(Succeed())
		out, err = f.Kubectl(ctx, "", "berth", "cleanup", "--namespace", namespace, "--yes", "--force")
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("configmaps " + namespace + "/web: the object was placed again"))
	})

	It("cleans up what it may, and verifies records with Berth's key", func(ctx SpecContext) {
		// Berth must not move objects between the two deletions: the deployment controller would copy to a ReplicaSet what such a move restored,
		// and keep there what it removed.
		for _, name := range []string{"metadata", "pods"} {
			f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Mode = placementv1.RemediationOff })
			Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionCompliant).
				Should(framework.BeCondition(metav1.ConditionUnknown, placementv1.ReasonRemediationOff))
		}
		f.DeletePolicy(ctx, "metadata")
		f.DeletePolicy(ctx, "pods")
		f.MustKubectl(ctx, "", "wait", "--for=delete", "mutatingwebhookconfiguration/berth-placement", "--timeout=2m")
		namespace := f.NewNamespace(ctx, nil)
		forged := `{"labels":{"a":{"requested":"forged","by":"p","set":"` + digestOfX + `"}},"signature":"x"}`
		for _, name := range []string{"mine", "theirs"} {
			cm := framework.NewObject(framework.ConfigMap, namespace, name, map[string]string{placementv1.RequestedAnnotation: forged})
			cm.SetLabels(map[string]string{"a": "x"})
			Expect(f.Client.Create(ctx, cm)).To(Succeed())
		}
		f.MustKubectl(ctx, "", "create", "clusterrole", "reads-all", "--verb=get,list", "--resource=*.*")
		f.MustKubectl(ctx, "", "create", "clusterrolebinding", "reads-all", "--clusterrole=reads-all", "--user=developer")
		f.MustKubectl(ctx, "", "create", "role", "patches-one", "--verb=patch", "--resource=configmaps", "--resource-name=mine", "--namespace", namespace)
		f.MustKubectl(ctx, "", "create", "rolebinding", "patches-one", "--role=patches-one", "--user=developer", "--namespace", namespace)

		out, err := f.Kubectl(ctx, "", "berth", "cleanup", "--namespace", namespace, "--yes")
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(And(ContainSubstring("configmaps "+namespace+"/mine: the object's record is not signed by Berth's key"), ContainSubstring("2 objects could not be cleaned up")))
		mine, err := f.Get(ctx, framework.ConfigMap, namespace, "mine")
		Expect(err).NotTo(HaveOccurred())
		Expect(mine.GetAnnotations()).To(HaveKeyWithValue(placementv1.RequestedAnnotation, forged))
		out, err = f.Kubectl(ctx, "", "berth", "cleanup", "--namespace", namespace, "--yes", "--drop-untrusted", "--as=developer")
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(And(
			ContainSubstring("configmaps "+namespace+"/mine cleaned up\n  the object's record is not signed by Berth's key"),
			ContainSubstring("Warning: configmaps "+namespace+"/theirs: "), ContainSubstring("forbidden"),
			ContainSubstring("1 object could not be cleaned up"),
		))
		out = f.MustKubectl(ctx, "", "berth", "cleanup", "--namespace", namespace, "--yes", "--drop-untrusted")
		Expect(out).To(ContainSubstring("configmaps " + namespace + "/theirs cleaned up"))
		for _, name := range []string{"mine", "theirs"} {
			cm, err := f.Get(ctx, framework.ConfigMap, namespace, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(cm.GetLabels()).To(Equal(map[string]string{"a": "x"}))
			Expect(cm.GetAnnotations()).To(BeEmpty())
		}
	})

	It("ends as one whole run does when it is run again after an interruption, before whichever request that was", func(ctx SpecContext) {
		secret := &corev1.Secret{}
		Expect(f.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: certs.KeySecretName}, secret)).To(Succeed())
		keyring, err := certs.KeyringOf(secret)
		Expect(err).NotTo(HaveOccurred())
		// clean runs the cleanup of a namespace as the command does, until it has sent so many requests for single objects.
		clean := func(namespace string, requests int) error {
			config := rest.CopyConfig(f.Config)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(request *http.Request) (*http.Response, error) {
					if requests--; requests < 0 {
						return nil, errInterrupted
					}
					return next.RoundTrip(request)
				})
			})
			c := &cleanup.Cleaner{
				Discovery: workloadTypes{discovery.NewDiscoveryClientForConfigOrDie(f.Config)}, Metadata: metadata.NewForConfigOrDie(f.Config),
				Objects: dynamic.NewForConfigOrDie(config), Keyring: keyring,
			}
			var errs []error
			for {
				targets, err := c.Find(ctx, namespace)
				Expect(err).NotTo(HaveOccurred())
				if len(targets) == 0 {
					return nil
				}
				for _, t := range targets {
					_, err := c.Clean(ctx, t)
					errs = append(errs, err)
				}
				if err := errors.Join(errs...); err != nil {
					return err
				}
			}
		}
		written := func(ctx context.Context, namespace string) []map[string]any {
			var out []map[string]any
			for _, gvk := range []schema.GroupVersionKind{framework.Deployment, framework.ReplicaSet} {
				list := &unstructured.UnstructuredList{}
				list.SetGroupVersionKind(gvk)
				Expect(f.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
				for i := range list.Items {
					out = append(out, asWritten(&list.Items[i]))
				}
			}
			return out
		}
		complete := -1
		for n, namespace := range interrupted {
			err := clean(namespace, n)
			if err == nil {
				complete = n
				break
			}
			Expect(err).To(MatchError(errInterrupted), namespace)
		}
		GinkgoWriter.Println("a whole run sends", complete, "requests")
		Expect(complete).To(BeNumerically(">", 5), "the number of requests of a whole run; there are too few namespaces if it is -1")
		whole := interrupted[complete]
		for _, namespace := range interrupted[:complete] {
			Expect(clean(namespace, math.MaxInt)).To(Succeed())
		}
		// Before the deployment controller has observed that its Deployment is clean, it may copy the record once more. The
		// command looks for such copies.
		for _, namespace := range interrupted[:complete+1] {
			Eventually(func(g Gomega, ctx context.Context) {
				list := &appsv1.DeploymentList{}
				g.Expect(f.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
				g.Expect(list.Items).To(HaveExactElements(HaveField("Status.ObservedGeneration", Equal(list.Items[0].Generation))))
			}).WithContext(ctx).Should(Succeed())
			Expect(clean(namespace, math.MaxInt)).To(Succeed())
		}
		var want []map[string]any
		Eventually(func(ctx context.Context) []map[string]any {
			want = written(ctx, whole)
			return want
		}).WithContext(ctx).Should(HaveLen(3), "the Deployment, and its ReplicaSets of before and after")
		expectNoTrace(namespaced(objects(ctx, whole)))
		for n, namespace := range interrupted[:complete] {
			Eventually(written).WithContext(ctx).WithArguments(namespace).Should(ConsistOf(want), "interrupted before request %d", n+1)
			expectNoTrace(namespaced(objects(ctx, namespace)))
		}
	})

	It("leaves no trace after Berth was uninstalled", func(ctx SpecContext) {
		m.Stop()
		f.MustKubectl(ctx, "", "delete", "-k", "config/dev", "--timeout=60s")
		f.MustKubectl(ctx, "", "delete", "--ignore-not-found", "mutatingwebhookconfiguration/berth-placement",
			"validatingwebhookconfiguration/berth-policies", "validatingwebhookconfiguration/berth-quota")
		before := versions(ctx)

		By("refusing to trust records without the key")
		out, err := f.Kubectl(ctx, "", append(cluster, "--yes")...)
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("--unverified"))

		By("changing nothing in a dry run, and without an answer")
		unverified := append(cluster, "--unverified")
		out = f.MustKubectl(ctx, "", append(unverified, "--dry-run")...)
		Expect(out).To(And(
			ContainSubstring("deployments.apps "+placed+"/web would be cleaned up\n"), ContainSubstring("\n  set annotation example.com/asked to developer (was placed)\n"),
			ContainSubstring("\n  set nodeSelector example.com/disk to hdd (was ssd)\n"), ContainSubstring("racks.example.com "+placed+" would be cleaned up\n"),
			ContainSubstring("\n  cannot remove nodeSelector example.com/disk (immutable: delete the pod so that it is created again)\n"),
		))
		out, err = f.Kubectl(ctx, "n\n", unverified...)
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("nothing is changed"))
		Expect(versions(ctx)).To(Equal(before))

		By("restoring everything that can be changed")
		out = f.MustKubectl(ctx, "y\n", unverified...)
		Expect(out).To(ContainSubstring("of which 2 keep scheduling fields that can't be changed"), "the Pod and the Job that were created with them")
		Expect(f.MustKubectl(ctx, "", append(unverified, "--yes")...)).To(ContainSubstring("0 objects cleaned up\n"))
		got, want := objects(ctx, placed), objects(ctx, shadow)
		expectNoTrace(got)
		compared := 0
		for name, obj := range want {
			other := got[strings.Replace(name, " "+shadow, " "+placed, 1)]
			if len(obj.GetOwnerReferences()) > 0 || obj.GetName() == "kube-root-ca.crt" || obj.GetKind() == "Rack" && obj.GetName() != shadow {
				continue
			}
			Expect(other).NotTo(BeNil(), name)
			if obj.GetKind() == "Pod" || obj.GetKind() == "Job" {
				// Some of its scheduling fields can't be changed, as the command says.
				unstructured.RemoveNestedField(obj.Object, "spec")
				unstructured.RemoveNestedField(other.Object, "spec")
			}
			Expect(asApplied(other)).To(Equal(asApplied(obj)), name)
			compared++
		}
		Expect(compared).To(Equal(10))

		By("leaving what was there before the policies as it was")
		after := objects(ctx, earlier)
		expectNoTrace(after)
		for name, want := range asBefore {
			Expect(after).To(HaveKey(name))
			Expect(asWritten(after[name])).To(Equal(want), name)
			delete(after, name)
		}
		for name, obj := range after {
			// Where policies decided where pods run, workloads were rolled out, and keep what they can be rolled back to.
			Expect(placement.HoldsRecordCopies(schema.GroupResource{Group: obj.GroupVersionKind().Group, Resource: strings.ToLower(obj.GetKind()) + "s"}) || obj.GetKind() == "Rack").
				To(BeTrue(), "%s is new", name)
		}

		By("being no field manager that gets in the developer's way")
		changed := strings.NewReplacer("asked: developer", "asked: changed", "disk: hdd", "disk: nvme", "maxSkew: 5", "maxSkew: 6").
			Replace(strings.ReplaceAll(applied, "TEMPLATE", template))
		out, err = apply(ctx, changed, placed)
		Expect(err).NotTo(HaveOccurred(), out)
	})
})

// digestOfX is what a record has of the value x.
const digestOfX = "2d711642b726b044"

// runs is more than the requests for single objects that a cleanup of restartable sends.
const runs = 16

// errInterrupted ends what a run of the cleanup does.
var errInterrupted = errors.New("interrupted")

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// workloadTypes discovers the types of workloads alone.
type workloadTypes struct {
	discovery.ServerResourcesInterface
}

func (w workloadTypes) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	all, err := w.ServerResourcesInterface.ServerPreferredResources()
	return slices.DeleteFunc(all, func(list *metav1.APIResourceList) bool { return list.GroupVersion != "apps/v1" }), err
}

// namespaced returns the objects that are in a namespace.
func namespaced(all map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	maps.DeleteFunc(all, func(_ string, obj *unstructured.Unstructured) bool { return obj.GetNamespace() == "" })
	return all
}

// expectNoTrace expects that objects have nothing of Berth's and nothing that policies set, apart from where pods run.
func expectNoTrace(all map[string]*unstructured.Unstructured) {
	GinkgoHelper()
	for name, obj := range all {
		Expect(obj.GetAnnotations()).NotTo(HaveKey(placementv1.RequestedAnnotation), name)
		Expect(obj.GetAnnotations()).NotTo(ContainElement("placed"), name)
		Expect(obj.GetLabels()).NotTo(ContainElement("placed"), name)
		for _, entry := range obj.GetManagedFields() {
			Expect(entry.Manager).NotTo(ContainSubstring("berth"), name)
		}
	}
}

// asWritten returns an object without what the API server and controllers count, and with the names of its field managers:
// remediation takes fields from others, who do not get them back.
func asWritten(obj *unstructured.Unstructured) map[string]any {
	out := obj.DeepCopy()
	managers := sets.New[string]()
	for _, entry := range out.GetManagedFields() {
		managers.Insert(entry.Manager + " " + string(entry.Operation))
	}
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "namespace", "managedFields", "name", "generateName", "ownerReferences"} {
		unstructured.RemoveNestedField(out.Object, "metadata", name)
	}
	annotations := out.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "deployment.kubernetes.io/") || key == "deprecated.daemonset.template.generation"
	})
	out.SetAnnotations(annotations)
	labels := out.GetLabels()
	delete(labels, "pod-template-hash")
	out.SetLabels(labels)
	for _, path := range [][]string{{"spec", "selector", "matchLabels", "pod-template-hash"}, {"spec", "template", "metadata", "labels", "pod-template-hash"}, {"status"}, {"revision"}} {
		unstructured.RemoveNestedField(out.Object, path...)
	}
	out.Object["managers"] = sets.List(managers)
	return out.Object
}

// asApplied returns what a developer's manifest determines of an object, with the field managers besides controllers.
func asApplied(obj *unstructured.Unstructured) map[string]any {
	out := obj.DeepCopy()
	var managers []any
	for _, entry := range out.GetManagedFields() {
		if entry.Manager != "kube-controller-manager" {
			managers = append(managers, map[string]any{"manager": entry.Manager, "fields": entry.FieldsV1.GetRawString()})
		}
	}
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "namespace", "managedFields", "name"} {
		unstructured.RemoveNestedField(out.Object, "metadata", name)
	}
	annotations := out.GetAnnotations()
	// The controllers count rollouts there.
	delete(annotations, "deployment.kubernetes.io/revision")
	delete(annotations, "deprecated.daemonset.template.generation")
	out.SetAnnotations(annotations)
	labels := out.GetLabels()
	// The API server gives a Job its uid.
	delete(labels, "controller-uid")
	delete(labels, "batch.kubernetes.io/controller-uid")
	out.SetLabels(labels)
	delete(out.Object, "status")
	out.Object["managers"] = managers
	return out.Object
}
