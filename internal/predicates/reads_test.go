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

package predicates

import (
	"context"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"sigs.k8s.io/randfill"

	"github.com/berth-dev/berth/test/budget"
)

func chosen[T any](from ...T) func(*T, randfill.Continue) {
	return func(out *T, c randfill.Continue) { *out = from[c.Intn(len(from))] }
}

// filler fills all fields of objects, with few distinct values, so that objects often match.
func filler(seed int64) *randfill.Filler {
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.4).NumElements(0, 2).MaxDepth(20).Funcs(
		chosen("a", "b", "c"),
		chosen(types.UID("a"), types.UID("b")),
		chosen(corev1.ProtocolTCP, corev1.ProtocolUDP),
		chosen(corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
		chosen(corev1.TolerationOpExists, corev1.TolerationOpEqual),
		chosen(corev1.DoNotSchedule, corev1.ScheduleAnyway),
		chosen(corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore),
		chosen(corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever),
		chosen(corev1.PodReady, corev1.PodResizePending),
		chosen(corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed),
		chosen(metav1.LabelSelectorOpIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
		chosen(corev1.NodeSelectorOpIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist),
		func(q *apiresource.Quantity, c randfill.Continue) {
			*q = *apiresource.NewMilliQuantity(c.Int63n(5000), apiresource.DecimalSI)
		},
		func(l *corev1.ResourceList, c randfill.Continue) {
			*l = corev1.ResourceList{}
			for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "pods", "example.com/gpu", "hugepages-2Mi"} {
				if c.Intn(2) == 0 {
					var quantity apiresource.Quantity
					c.Fill(&quantity)
					(*l)[name] = quantity
				}
			}
		},
		func(p *corev1.ContainerPort, c randfill.Continue) {
			c.FillNoCustom(p)
			p.HostPort = c.Int31n(4)
		},
		func(condition *corev1.PodCondition, c randfill.Continue) {
			c.FillNoCustom(condition)
			chosen(corev1.PodReasonInfeasible, corev1.PodReasonDeferred)(&condition.Reason, c)
		},
		// A volume has only one source.
		func(v *corev1.VolumeSource, c randfill.Continue) {
			sources := reflect.ValueOf(v).Elem()
			source := sources.Field(c.Intn(sources.NumField()))
			if c.Intn(2) == 0 {
				// Prefer the sources that predicates read.
				var name string
				chosen("PersistentVolumeClaim", "Ephemeral", "ISCSI", "RBD", "AWSElasticBlockStore", "GCEPersistentDisk")(&name, c)
				source = sources.FieldByName(name)
			}
			source.Set(reflect.New(source.Type().Elem()))
			c.Fill(source.Interface())
		},
		chosen(corev1.AzureManagedDisk),
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<31), 0) },
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31n(100)) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString("{}") },
	)
}

// filled is a world whose objects have all fields filled.
type filled struct {
	nodes      []*corev1.Node
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
	others     []runtime.Object
}

func fill(seed int64) (f filled, target *corev1.Pod) {
	filler := filler(seed)
	for _, name := range []string{"a", "b", "c"} {
		node := &corev1.Node{}
		filler.Fill(node)
		node.Name, node.Namespace = name, ""
		// Whether pods fit must depend on these amounts.
		node.Status.Allocatable = corev1.ResourceList{
			"cpu": apiresource.MustParse("12"), "memory": apiresource.MustParse("20"), "ephemeral-storage": apiresource.MustParse("20"),
			"pods": apiresource.MustParse("6"), "example.com/gpu": apiresource.MustParse("20"), "hugepages-2Mi": apiresource.MustParse("20"),
		}
		if name == "a" {
			node.Status.DeclaredFeatures = []string{"UserNamespacesHostNetworkSupport"}
		}
		node.Spec.Taints = node.Spec.Taints[:min(len(node.Spec.Taints), 1)]
		metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelTopologyZone, name)
		f.nodes = append(f.nodes, node)
		driver := storagev1.CSINodeDriver{Name: "csi", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(2))}}
		f.others = append(f.others, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{driver},
		}})
		namespace := &corev1.Namespace{}
		filler.Fill(namespace)
		namespace.Name, namespace.Namespace = name, ""
		f.namespaces = append(f.namespaces, namespace)
	}
	for i := range 12 {
		p := &corev1.Pod{}
		filler.Fill(p)
		p.Name, p.UID = fmt.Sprint("pod-", i), types.UID(fmt.Sprint(i))
		tellApart("c", p.Spec.Containers, p.Status.ContainerStatuses)
		tellApart("i", p.Spec.InitContainers, p.Status.InitContainerStatuses)
		f.pods = append(f.pods, p)
	}
	for _, namespace := range f.namespaces {
		for _, claim := range append([]string{"a", "b", "c"}, ephemeralClaims(f.pods, namespace.Name)...) {
			f.others = append(f.others, volumes(namespace.Name, claim, f.pods)...)
		}
	}
	target = &corev1.Pod{}
	filler.Fill(target)
	target.Name, target.UID = "target", "target"
	if seed%2 == 0 {
		target.Spec.NodeName = ""
	}
	target.Spec.Tolerations = append(target.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists, Key: "a"})
	return f, target
}

// tellApart gives containers distinct names.
func tellApart(prefix string, containers []corev1.Container, statuses []corev1.ContainerStatus) {
	for i := range containers {
		containers[i].Name = fmt.Sprint(prefix, i)
	}
	for i := range statuses {
		statuses[i].Name = fmt.Sprint(prefix, i)
	}
}

func ephemeralClaims(pods []*corev1.Pod, namespace string) (out []string) {
	for _, p := range pods {
		for _, v := range p.Spec.Volumes {
			if p.Namespace == namespace && v.Ephemeral != nil {
				out = append(out, p.Name+"-"+v.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// volumes returns a bound claim and its volume. The claim of an ephemeral volume belongs to the pod.
func volumes(namespace, claim string, pods []*corev1.Pod) []runtime.Object {
	name := namespace + "-" + claim
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim}}
	c.Spec.VolumeName = name
	if claim == "c" {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	for _, p := range pods {
		if strings.HasPrefix(claim, p.Name+"-") {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}
		}
	}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if claim == "b" {
		v.Labels = map[string]string{corev1.LabelTopologyZone: "b"}
	}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi", VolumeHandle: name}
	return []runtime.Object{c, v}
}

// cutTo returns an object as a watch that only keeps the read fields stores it.
func cutTo(t testing.TB, resource schema.GroupVersionResource, o runtime.Object) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: Reads()[resource].Project(unstructuredOf(t, o).Object)}
}

// unstructuredOf returns an object as the API server returns it.
func unstructuredOf(t testing.TB, o runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// snapshots returns the snapshot of a NodeCache, which reduces objects to the read fields, and the scheduler's own snapshot
// of the complete objects.
func (f filled) snapshots(t testing.TB) (cut *Snapshot, whole fwk.SharedLister) {
	t.Helper()
	w := NewNodeCache()
	for resource := range Reads() {
		w.Load(resource, nil)
	}
	for _, n := range f.namespaces {
		w.Put(namespaceResource, cutTo(t, namespaceResource, n))
	}
	for _, n := range f.nodes {
		w.Put(nodeResource, cutTo(t, nodeResource, n))
	}
	var pods []*corev1.Pod
	for _, p := range f.pods {
		o := unstructuredOf(t, p)
		w.Put(podResource, cutTo(t, podResource, p))
		if onNode(o) {
			// Decode the pod from JSON.
			pods = append(pods, typed[corev1.Pod](t, o))
		}
	}
	return mustSnapshot(t, w), cache.NewSnapshot(pods, f.nodes)
}

// schedulerHandle is the scheduler's handle for plugins.
type schedulerHandle struct {
	fwk.Handle
	lister fwk.SharedLister
	shared informers.SharedInformerFactory
	client kubernetes.Interface
}

func (h schedulerHandle) SnapshotSharedLister() fwk.SharedLister                 { return h.lister }
func (h schedulerHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.shared }
func (h schedulerHandle) Parallelizer() fwk.Parallelizer                         { return parallelize.NewParallelizer(1) }
func (h schedulerHandle) ClientSet() kubernetes.Interface                        { return h.client }
func (h schedulerHandle) SharedDRAManager() fwk.SharedDRAManager                 { return nil }
func (h schedulerHandle) SharedCSIManager() fwk.CSIManager {
	return nodevolumelimits.NewCSIManager(h.shared.Storage().V1().CSINodes().Lister())
}

// verdicts returns the results of the scheduler's filters for a pod on each node.
func (f filled) verdicts(t *testing.T, lister fwk.SharedLister, target *corev1.Pod) map[string]string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	objects := slices.Clone(f.others)
	for _, n := range f.namespaces {
		objects = append(objects, n)
	}
	client := fakeclient.NewClientset(objects...)
	h := schedulerHandle{lister: lister, shared: informers.NewSharedInformerFactory(client, 0), client: client}
	defaults, err := configlatest.Default()
	if err != nil {
		t.Fatal(err)
	}
	fts := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	out := map[string]string{}
	plugins := map[string]fwk.Plugin{}
	for name, factory := range map[string]frameworkruntime.PluginFactory{
		nodeunschedulable.Name:   frameworkruntime.FactoryAdapter(fts, nodeunschedulable.New),
		nodename.Name:            frameworkruntime.FactoryAdapter(fts, nodename.New),
		tainttoleration.Name:     frameworkruntime.FactoryAdapter(fts, tainttoleration.New),
		nodeaffinity.Name:        frameworkruntime.FactoryAdapter(fts, nodeaffinity.New),
		nodeports.Name:           frameworkruntime.FactoryAdapter(fts, nodeports.New),
		noderesources.Name:       frameworkruntime.FactoryAdapter(fts, noderesources.NewFit),
		podtopologyspread.Name:   frameworkruntime.FactoryAdapter(fts, podtopologyspread.New),
		interpodaffinity.Name:    frameworkruntime.FactoryAdapter(fts, interpodaffinity.New),
		volumerestrictions.Name:  frameworkruntime.FactoryAdapter(fts, volumerestrictions.New),
		nodevolumelimits.CSIName: frameworkruntime.FactoryAdapter(fts, nodevolumelimits.NewCSI),
		volumebinding.Name:       frameworkruntime.FactoryAdapter(fts, volumebinding.New),
		volumezone.Name:          frameworkruntime.FactoryAdapter(fts, volumezone.New),
	} {
		var args runtime.Object
		for _, c := range defaults.Profiles[0].PluginConfig {
			if c.Name == name {
				args = c.Args
			}
		}
		plugin, err := factory(ctx, args, h)
		if err != nil {
			t.Fatal(name, err)
		}
		plugins[name] = plugin
	}
	h.shared.Start(ctx.Done())
	h.shared.WaitForCacheSync(ctx.Done())
	defer h.shared.Shutdown()
	defer cancel()
	for name, plugin := range plugins {
		infos, err := lister.NodeInfos().List()
		if err != nil {
			t.Fatal(err)
		}
		state := framework.NewCycleState()
		if pre, ok := plugin.(fwk.PreFilterPlugin); ok {
			result, status := pre.PreFilter(ctx, state, target, infos)
			out[name] = fmt.Sprint(status, result)
			if !status.IsSuccess() {
				continue
			}
		}
		for _, info := range infos {
			status := plugin.(fwk.FilterPlugin).Filter(ctx, state, target, info)
			if !status.IsSuccess() {
				// NodeResourcesFit returns the reasons in the random order of a map.
				out[name+" on "+info.Node().Name] = fmt.Sprint(status.Code(), slices.Sorted(slices.Values(status.Reasons())))
				continue
			}
			out[name+" on "+info.Node().Name] = "fits"
		}
	}
	return out
}

// TestWorldIsAsIfWhole checks that predicates give the same results for reduced objects as for complete ones with all
// fields filled.
func TestWorldIsAsIfWhole(t *testing.T) {
	schedulermetrics.Register()
	differing := map[string]map[string]bool{}
	for seed := range int64(budget.Rounds(20)) {
		f, target := fill(seed)
		cut, whole := f.snapshots(t)
		if diff := cmp.Diff(shownBy(t, whole), shownBy(t, cut), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d (-whole +cut):\n%s", seed, diff)
		}
		want := f.verdicts(t, whole, target)
		if diff := cmp.Diff(want, f.verdicts(t, cut, target)); diff != "" {
			t.Fatalf("seed %d (-whole +cut):\n%s", seed, diff)
		}
		for at, verdict := range want {
			name, _, _ := strings.Cut(at, " ")
			if differing[name] == nil {
				differing[name] = map[string]bool{}
			}
			differing[name][verdict] = true
		}
	}
	for name, verdicts := range differing {
		if len(verdicts) < 2 {
			t.Errorf("%s says the same of all pods", name)
		}
	}
}
