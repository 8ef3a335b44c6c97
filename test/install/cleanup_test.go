package install_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/controlplane"
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

var _ = Describe("kubectl berth cleanup", Ordered, func() {
	var (
		f       *framework.Framework
		m       *framework.Manager
		placed  string
		shadow  string
		cluster = []string{"berth", "cleanup", "--all-namespaces"}
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

	BeforeAll(func(ctx SpecContext) {
		f = framework.Start(ctx, func(o *controlplane.Options) { o.ControllerManager = true })
		DeferCleanup(f.Stop)
		f.InstallPlugin(ctx)
		f.InstallCRD(ctx, framework.NewCRD("example.com", "v1", "racks", "Rack", apiextensionsv1.ClusterScoped))
		m = f.StartReadyManager(ctx)
		DeferCleanup(func() { m.Stop() })
		placed = f.NewNamespace(ctx, nil)
		shadow = "shadow"
		Expect(f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shadow}})).To(Succeed())
		workloads := []placementv1.ResourceRule{rule("apps", "deployments", "statefulsets", "daemonsets", "replicasets"), rule("batch", "cronjobs", "jobs"), rule("", "pods")}
		f.CreateReadyPolicy(ctx, newPolicy("metadata", placingMetadata, append(workloads, rule("", "configmaps"), rule("example.com", "racks"))...))
		f.CreateReadyPolicy(ctx, newPolicy("pods", placingPods, workloads...))
		for _, namespace := range []string{placed, shadow} {
			Eventually(func(ctx context.Context) error {
				return f.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
			}).WithContext(ctx).Should(Succeed())
			out, err := apply(ctx, applied+"---"+single, namespace)
			Expect(err).NotTo(HaveOccurred(), out)
		}
		By("waiting until controllers have copied the annotations, the record too unless policies match the copy")
		Eventually(func(ctx context.Context) []string {
			var copied []string
			for _, obj := range objects(ctx, placed) {
				if obj.GetAnnotations()["example.com/zone"] == "placed" && len(obj.GetOwnerReferences()) > 0 {
					_, recorded := obj.GetAnnotations()[placementv1.RequestedAnnotation]
					copied = append(copied, fmt.Sprintf("%s %t", obj.GetOwnerReferences()[0].Kind, recorded))
				}
			}
			return copied
		}).WithContext(ctx).Should(ConsistOf("Deployment false", "StatefulSet true", "DaemonSet true"))
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
		Expect(out).To(ContainSubstring("configmaps " + namespace + "/web: it was placed again"))
	})

	It("cleans up what it may, and verifies records with Berth's key", func(ctx SpecContext) {
		f.DeletePolicy(ctx, "metadata")
		f.DeletePolicy(ctx, "pods")
		f.MustKubectl(ctx, "", "wait", "--for=delete", "mutatingwebhookconfiguration/berth-placement", "--timeout=30s")
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
		Expect(out).To(And(ContainSubstring("configmaps "+namespace+"/mine: its record is not signed by Berth's key"), ContainSubstring("2 objects could not be cleaned up")))
		mine, err := f.Get(ctx, framework.ConfigMap, namespace, "mine")
		Expect(err).NotTo(HaveOccurred())
		Expect(mine.GetAnnotations()).To(HaveKeyWithValue(placementv1.RequestedAnnotation, forged))
		out, err = f.Kubectl(ctx, "", "berth", "cleanup", "--namespace", namespace, "--yes", "--drop-untrusted", "--as=developer")
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(And(
			ContainSubstring("configmaps "+namespace+"/mine cleaned up\n  its record is not Berth's"),
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
			ContainSubstring("\n  cannot remove nodeSelector example.com/disk (immutable: delete the pod so that it is made anew)\n"),
		))
		out, err = f.Kubectl(ctx, "n\n", unverified...)
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("nothing is changed"))
		Expect(versions(ctx)).To(Equal(before))

		By("restoring everything that can be changed")
		out = f.MustKubectl(ctx, "y\n", unverified...)
		Expect(out).To(ContainSubstring("of which 4 keep scheduling fields that can't be changed"), "the Pod, the Job, and the revisions of two workloads")
		Expect(f.MustKubectl(ctx, "", append(unverified, "--yes")...)).To(ContainSubstring("0 objects cleaned up\n"))
		got, want := objects(ctx, placed), objects(ctx, shadow)
		for name, obj := range got {
			Expect(obj.GetAnnotations()).NotTo(HaveKey(placementv1.RequestedAnnotation), name)
			Expect(obj.GetAnnotations()).NotTo(ContainElement("placed"), name)
			Expect(obj.GetLabels()).NotTo(ContainElement("placed"), name)
		}
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

		By("being no field manager that gets in the developer's way")
		changed := strings.NewReplacer("asked: developer", "asked: changed", "disk: hdd", "disk: nvme", "maxSkew: 5", "maxSkew: 6").
			Replace(strings.ReplaceAll(applied, "TEMPLATE", template))
		out, err = apply(ctx, changed, placed)
		Expect(err).NotTo(HaveOccurred(), out)
	})
})

// digestOfX is what a record has of the value x.
const digestOfX = "2d711642b726b044"

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
