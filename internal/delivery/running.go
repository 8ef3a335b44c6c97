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

package delivery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/numeral"
)

// Observation is what a system, or what brings placed objects to single clusters for it, reports of one placed object: in which clusters it
// is, whether it runs there, and for which placement that holds. It has no generation of the placed object.
type Observation struct {
	// UID is the UID of the placed object to which the report belongs; "" if the system does not report it.
	UID types.UID
	// Requested are the clusters that the delivered object named when the system acted on it, sorted; nil if the system does not report them.
	Requested []string
	// Current reports whether the system has finished choosing clusters for the newest delivered object.
	Current bool
	// Refused says why the system found no clusters when it last tried, also for an earlier delivered object; "" if it found some, or does not
	// say it. It is only the message while Current is false, and has no effect while Current is true.
	Refused string
	// Clusters has the clusters to which the system brings the object, by name. The value is "" if the object runs there, and otherwise says
	// what is missing. It is nil if the system has not reported anything about the object, and empty if it brings it to no cluster.
	Clusters map[string]string
	// Present are the clusters in which the system has the placed object, sorted, also those of which it no longer reports anything. It is
	// nil if the system does not say so, or Berth can't read it.
	Present []string
	// Ending are those of Present from which the system is removing the object, sorted.
	Ending []string
	// Revision is the system's name for the version of the placed object that it brings to clusters; "" if it has none. Each version has
	// another name.
	Revision string
	// Outdated reports whether the system has not noticed the newest version of the placed object, so that it reports where an earlier
	// version runs.
	Outdated bool
	// Absent are those of Clusters of which the system does not report that the object exists there. In the others, an object that does not
	// run lacks something else. It is empty for a system that never reports what exists.
	Absent []string
	// Strays are clusters to which objects of other clients bring the placed object, each with the kind and name of one of these objects.
	Strays map[string]string
}

// Equal reports whether two observations are equal.
func (o Observation) Equal(other Observation) bool {
	return o.UID == other.UID && o.Current == other.Current && o.Refused == other.Refused && slices.Equal(o.Requested, other.Requested) &&
		maps.Equal(o.Clusters, other.Clusters) &&
		slices.Equal(o.Present, other.Present) && slices.Equal(o.Ending, other.Ending) && o.Revision == other.Revision &&
		o.Outdated == other.Outdated &&
		maps.Equal(o.Strays, other.Strays) && slices.Equal(o.Absent, other.Absent)
}

// RunState tells whether a placed object runs in all of its clusters and in no others. The zero value means that no system reports that.
type RunState string

const (
	// NotReported means that no system reports it.
	NotReported RunState = ""
	// Running means that the object runs in all of its clusters, and in no other one.
	Running RunState = "Running"
	// NotRunning means that the object does not run in all of its clusters, or still runs in others.
	NotRunning RunState = "NotRunning"
	// RunUnknown means that Berth can't read the reports.
	RunUnknown RunState = "Unknown"
)

// Run reports whether a placed object runs in its clusters, and why not.
type Run struct {
	State RunState
	// Reason is the reason of the policy's condition Running if State is RunUnknown.
	Reason string
	// Message says why the object does not run in its clusters, or why that is unknown; "" for Running and NotReported.
	Message string
	// Remains reports whether the object is still in a cluster that is neither decided nor kept. Then State is NotRunning, or RunUnknown
	// because of another system.
	Remains bool
	// Absent reports whether it is not known of some decided cluster that a system has brought the object there, for example because the
	// system has not acted on the newest placement; false if no system reports that. If it is set, State is NotRunning, or RunUnknown because
	// of another system.
	Absent bool
}

// And combines what two systems report of one object. The worse state counts, with its message: RunUnknown is worse than NotRunning, that
// than Running, and that than NotReported. Of equal states, other's message counts if other has Remains, and r's if not. Remains and Absent
// are those of either.
func (r Run) And(other Run) Run {
	rank := map[RunState]int{NotReported: 0, Running: 1, NotRunning: 2, RunUnknown: 3}
	remains, absent := r.Remains || other.Remains, r.Absent || other.Absent
	if rank[other.State] > rank[r.State] || rank[other.State] == rank[r.State] && other.Remains {
		r = other
	}
	r.Remains, r.Absent = remains, absent
	return r
}

// RunOf reports whether an object of a kind of NativeSystem runs in the clusters of its decision, by the object's own status. The state is
// NotReported if the system does not say so there.
func (s System) RunOf(object *unstructured.Unstructured, decision Decision) Run {
	if s.runsNative == nil {
		return Run{}
	}
	return s.runsNative(object.Object, decision.Clusters)
}

// Reports reports whether the system says, in delivered objects or in others, where a placed object runs. If only the placed object says
// so, it returns false.
func (s System) Reports() bool { return s.reporter != nil }

// ReportKinds returns the kinds of the objects, other than delivered objects, in which the system says where a placed object runs. There
// are none if the delivered objects say it.
func (s System) ReportKinds() []Kind {
	if s.reporter == nil {
		return nil
	}
	return s.reporter.kinds
}

// WorkKinds returns the kinds of the objects by which the system, or a consumer of its decisions, brings placed objects to single clusters.
// There are none if Berth need not read them, or does not know the consumers.
func (s System) WorkKinds() []Kind { return s.workKinds }

// Carried is what an object of WorkKinds says of one placed object: to which cluster it brings the object, and what is missing there. It
// does not have the type of the placed object.
type Carried struct {
	// Namespace and Name identify the placed object: its namespace, and the name that CarriedAs returns for it.
	Namespace, Name string
	Cluster         string
	// Ending reports whether the object of WorkKinds is being deleted, so that the placed object is removed from the cluster.
	Ending bool
	// Missing says why the placed object does not run in the cluster; "" if it does, or if that is not reported.
	Missing string
	Absent  bool // whether it does not report that the placed object is in the cluster; false for WorkKinds that never report it
}

// CarriedBy returns which placed object an object of WorkKinds brings to which cluster. ok is false if it does not say so. Call it only if
// there are WorkKinds.
func (s System) CarriedBy(o *unstructured.Unstructured) (out Carried, ok bool) {
	out, ok = s.carries(o)
	out.Ending = o.GetDeletionTimestamp() != nil
	return out, ok
}

// CarriedAs returns the name by which objects of WorkKinds, which also name the namespace, refer to a placed object: that of its delivered
// object, or of the system's own object for it.
func (s System) CarriedAs(placed Object) string {
	if s.carriedAs != nil {
		return s.carriedAs(placed)
	}
	base, _ := listBase(placed)
	return base
}

// reporter reads from delivered objects, or from objects of its kinds, in which clusters placed objects run, and from delivered objects
// which clusters they name. It does not read objects of WorkKinds.
type reporter struct {
	kinds []Kind // the kinds of the objects that it reads other than delivered objects; none if it reads the latter
	// removeAtOnce changes a delivered object so that the system removes the placed object at once from the clusters that this does not name;
	// nil if the system does so anyway.
	removeAtOnce func(*unstructured.Unstructured)
	// observe reads an object of kinds, or a delivered object if there are no kinds.
	observe func(*unstructured.Unstructured) Observation
	// clusters returns the clusters that a delivered object names, sorted, as Observation.Requested has them.
	clusters func(*unstructured.Unstructured) []string
	// carried returns those of the clusters that a delivered object names to which the system brings the placed object, sorted. The others get
	// no replicas.
	carried func(*unstructured.Unstructured) []string
	// chooses reports whether the system itself chooses some of the clusters that a delivered object names.
	chooses func(*unstructured.Unstructured) bool
	// withdraws reports whether the system may remove an object that requests no replicas from its clusters.
	withdraws bool
}

// Observe returns what an object of ReportKinds reports or, if there are no such kinds, a delivered object. Call it only if Reports returns
// true.
func (s System) Observe(o *unstructured.Unstructured) Observation { return s.reporter.observe(o) }

// ReportedBy returns the key of the placed object of which an object of ReportKinds reports. ok is false if it does not say so, or if the
// placed object is in another namespace: a client that may write in one namespace must not report of objects in another one.
func ReportedBy(o *unstructured.Unstructured) (key Key, ok bool) {
	ref, _, _ := unstructured.NestedMap(o.Object, "spec", "resource")
	text := func(member string) string {
		value, _ := ref[member].(string)
		return value
	}
	gv, err := schema.ParseGroupVersion(text("apiVersion"))
	if err != nil || text("kind") == "" || text("name") == "" || text("namespace") != o.GetNamespace() {
		return Key{}, false
	}
	return Key{GroupKind: gv.WithKind(text("kind")).GroupKind(), Namespace: text("namespace"), Name: text("name")}, true
}

// ReportOf returns the name of the object of ReportKinds that the system itself writes for a placed object: of Karmada's binding. Only
// Karmada has ReportKinds. For another system, the result means nothing.
func (s System) ReportOf(placed Key) string {
	return s.CarriedAs(Object{GroupVersionKind: placed.WithVersion(""), Name: placed.Name})
}

// run reports whether a placed object runs where it is decided, and nowhere else. final is the delivered object for the decision alone, and
// applied the one that has to exist now, which may also have clusters that are kept. Both are nil if there is none. For an object that has
// to run nowhere, the state is NotReported unless it runs somewhere.
func (s System) run(placed Object, final, applied *unstructured.Unstructured, observed *Observation) Run {
	running, why := s.runningIn(placed, applied, observed)
	var wanted, carried []string
	if final != nil {
		wanted, carried = s.carried(final, observed), s.reporter.carried(applied)
	}
	for _, name := range wanted {
		if why == "" && !running[name] {
			why = "cluster " + name + ": " + s.missing(observed, name)
		}
	}
	if why == "" && observed.Outdated {
		why = s.Title + " has not noticed the last change of the object"
	}
	out := runIn(wanted, carried, observed.in(placed, running != nil || len(wanted) == 0), why)
	out.Absent = slices.ContainsFunc(wanted, func(name string) bool { return !running[name] && (running == nil || observed.lacks(name)) })
	if stray, cluster := observed.stray(carried); stray != "" {
		out = out.And(Run{State: NotRunning, Remains: true, Message: stray + " brings it to cluster " + cluster + ", too: delete " + stray})
	}
	return out
}

// lacks reports whether the placed object does not exist in a cluster, as far as the system reports: Clusters lacks the cluster, or Absent
// has it.
func (o *Observation) lacks(cluster string) bool {
	_, brought := o.Clusters[cluster]
	return !brought || slices.Contains(o.Absent, cluster)
}

// stray returns one of Strays whose cluster is not among those to which Berth brings the object (carried): the kind and name of the other
// client's object, and the cluster; "" if there is none.
func (o *Observation) stray(carried []string) (object, cluster string) {
	if o == nil {
		return "", ""
	}
	for _, name := range slices.Sorted(maps.Keys(o.Strays)) {
		if !slices.Contains(carried, name) {
			return o.Strays[name], name
		}
	}
	return "", ""
}

// runIn reports whether an object that is in some clusters (in) runs in the wanted ones, and in no others. why says what is missing in the
// wanted ones; "" if nothing. carried are the clusters to which it is brought now, the wanted and the kept ones. If it is in a cluster that
// is not wanted, the state is NotRunning, and Remains is set if the cluster is not among carried either. For an object that is wanted
// nowhere, the state is NotReported unless it is somewhere.
func runIn(wanted, carried, in []string, why string) Run {
	for _, name := range in {
		if !slices.Contains(wanted, name) {
			out := Run{State: NotRunning, Message: "it still runs in cluster " + name, Remains: !slices.Contains(carried, name)}
			if why != "" && len(wanted) > 0 {
				out.Message += "; " + why
			}
			return out
		}
	}
	switch {
	case len(wanted) == 0:
		return Run{}
	case why != "":
		return Run{State: NotRunning, Message: why}
	}
	return Run{State: Running}
}

// missing says why a placed object does not run in a cluster in which it has to run: what the system reports to be missing there, or that
// it has to remove an earlier copy first, or has not brought the object there. Call it only for a cluster in which the object does not run.
func (s System) missing(observed *Observation, cluster string) string {
	if slices.Contains(observed.Ending, cluster) {
		return s.Title + " still has to remove an earlier copy of the object"
	}
	return cmp.Or(observed.Clusters[cluster], s.Title+" has not brought it there")
}

// runAsCarried reports whether a placed object runs in the clusters of a decision, and nowhere else, for a system without a reporter, by
// the objects of WorkKinds that observed sums up. Without any such object, as for a nil observed, the state is NotReported.
func (s System) runAsCarried(decision Decision, observed *Observation) Run {
	if observed == nil || len(observed.Present) == 0 {
		return Run{}
	}
	why := ""
	for _, name := range decision.Clusters {
		if missing, carried := observed.Clusters[name]; why == "" && (!carried || missing != "") {
			why = "cluster " + name + ": " + cmp.Or(missing, s.Title+" has not brought it there")
		}
	}
	out := runIn(decision.Clusters, decision.Clusters, observed.Present, why)
	out.Absent = slices.ContainsFunc(decision.Clusters, observed.lacks)
	return out
}

// in returns the clusters in which a placed object is, sorted: Present if that is not nil. Otherwise they are those in Clusters, if counts
// is true and UID is not that of an earlier object of the name; nil if neither. counts reports whether Clusters are those for the newest
// placement.
func (o *Observation) in(placed Object, counts bool) []string {
	if o == nil {
		return nil
	}
	out := slices.Clone(o.Present)
	if counts && o.Present == nil && (o.UID == "" || o.UID == placed.UID) {
		out = slices.AppendSeq(out, maps.Keys(o.Clusters))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// carried returns the clusters to which the system brings a placed object by a delivered object, which must not be nil. If the system
// chooses some of those that the delivered object names, the result has the chosen ones, or all of them if none is chosen or observed is
// nil.
func (s System) carried(delivered *unstructured.Unstructured, observed *Observation) []string {
	all := s.reporter.carried(delivered)
	if observed == nil || !s.reporter.chooses(delivered) {
		return all
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(name string) bool { _, brought := observed.Clusters[name]; return !brought })
	if len(chosen) == 0 {
		return all
	}
	return chosen
}

// runningIn returns the clusters in which a placed object runs, if the system has acted on the delivered object that has to exist now
// (applied). Otherwise running is nil, and why says why it is not known.
func (s System) runningIn(placed Object, applied *unstructured.Unstructured, observed *Observation) (running map[string]bool, why string) {
	switch {
	case observed == nil, observed.UID != "" && observed.UID != placed.UID, observed.Clusters == nil:
		return nil, s.Title + " has not reported anything about the object"
	case !observed.Current && observed.Refused != "":
		return nil, s.Title + " found no clusters when it last tried: " + observed.Refused
	case applied == nil, !observed.Current, observed.Requested != nil && !slices.Equal(observed.Requested, s.reporter.clusters(applied)):
		return nil, s.Title + " has not acted on the newest placement"
	}
	running = map[string]bool{}
	if s.reporter.withdraws && placed.Replicas != nil && *placed.Replicas == 0 {
		for _, name := range s.reporter.clusters(applied) {
			running[name] = true
		}
	}
	for name, missing := range observed.Clusters {
		running[name] = missing == ""
	}
	for _, name := range observed.Ending {
		running[name] = false
	}
	return running, ""
}

// karmadaReporter reads ResourceBindings and ClusterResourceBindings. Karmada takes objects of kinds without a rule of health for healthy.
// It leaves a cluster out of the binding as soon as it deletes the Work there, which the reporter does not read. The Work stays until the
// object is gone from the cluster, which takes as long as Karmada does not reach the cluster's API server.
var karmadaReporter = &reporter{
	kinds: []Kind{
		{GroupVersionResource: karmadaWork.WithResource("resourcebindings"), Kind: "ResourceBinding", Namespaced: true},
		{GroupVersionResource: karmadaWork.WithResource("clusterresourcebindings"), Kind: "ClusterResourceBinding"},
	},
	observe:  observeBinding,
	clusters: affinityOf,
	carried:  karmadaCarried,
	chooses: func(o *unstructured.Unstructured) bool {
		dynamic, _, _ := unstructured.NestedString(o.Object, "spec", "placement", "replicaScheduling", "weightPreference", "dynamicWeight")
		return dynamic != ""
	},
	withdraws: true,
}

var karmadaWork = schema.GroupVersion{Group: "work.karmada.io", Version: "v1alpha2"}

// carriedByKarmadaWork reads a Work of Karmada. Its annotations name the binding of the placed object. The namespace of the Work is
// "karmada-es-" and the name of the cluster. ok is false without that prefix, or without the name of a binding.
func carriedByKarmadaWork(o *unstructured.Unstructured) (out Carried, ok bool) {
	out.Cluster, ok = strings.CutPrefix(o.GetNamespace(), "karmada-es-")
	annotations := o.GetAnnotations()
	out.Name = cmp.Or(annotations["resourcebinding.karmada.io/name"], annotations["clusterresourcebinding.karmada.io/name"])
	out.Namespace = annotations["resourcebinding.karmada.io/namespace"]
	return out, ok && out.Name != ""
}

// karmadaWorks has the kind of the objects by which Karmada carries placed objects to single clusters: its Works.
var karmadaWorks = []Kind{{GroupVersionResource: schema.GroupVersionResource{Group: karmadaWork.Group, Version: "v1alpha1",
	Resource: "works"}, Kind: "Work", Namespaced: true}}

// karmadaBindingName returns the name that Karmada gives the binding of an object: its name and kind in lower case, such as
// "web-deployment", with "." in place of each ":".
func karmadaBindingName(placed Object) string {
	return strings.ToLower(strings.ReplaceAll(placed.Name, ":", ".") + "-" + placed.Kind)
}

// affinityOf returns the names in spec.placement.clusterAffinity.clusterNames of a policy or binding of Karmada, sorted: the clusters that
// the delivered object named, and not those that Karmada chose; nil if there are none.
func affinityOf(o *unstructured.Unstructured) []string {
	names, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "placement", "clusterAffinity", "clusterNames")
	slices.Sort(names)
	return names
}

// karmadaCarried returns the clusters that have a static weight in a policy of Karmada or, without weights, those of affinityOf, apart from
// clusterlist.NoCluster.
func karmadaCarried(o *unstructured.Unstructured) []string {
	list, found, _ := unstructured.NestedSlice(o.Object, "spec", "placement", "replicaScheduling", "weightPreference", "staticWeightList")
	if !found {
		return slices.DeleteFunc(affinityOf(o), func(name string) bool { return name == clusterlist.NoCluster })
	}
	var out []string
	for _, item := range list {
		members, _ := item.(map[string]any)
		names, _, _ := unstructured.NestedStringSlice(members, "targetCluster", "clusterNames")
		out = append(out, names...)
	}
	slices.Sort(out)
	return out
}

// observeBinding reads a ResourceBinding or ClusterResourceBinding of Karmada.
func observeBinding(o *unstructured.Unstructured) Observation {
	uid, _, _ := unstructured.NestedString(o.Object, "spec", "resource", "uid")
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "schedulerObservedGeneration")
	out := Observation{UID: types.UID(uid), Requested: affinityOf(o), Current: seen == o.GetGeneration(), Clusters: map[string]string{}}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		members, _ := item.(map[string]any)
		if members["type"] == "Scheduled" && members["status"] == "False" {
			reason, _ := members["reason"].(string)
			message, _ := members["message"].(string)
			out.Refused = firstLine(reason + ": " + message)
		}
	}
	clusters, _, _ := unstructured.NestedSlice(o.Object, "spec", "clusters")
	chosen := namesOf(clusters)
	for _, name := range chosen {
		out.Clusters[name] = "Karmada has not applied the object yet"
	}
	out.Absent = slices.Sorted(slices.Values(chosen))
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "aggregatedStatus")
	for _, item := range list {
		members, _ := item.(map[string]any)
		name, _ := members["clusterName"].(string)
		switch message, _ := members["appliedMessage"].(string); {
		case members["applied"] != true:
			out.Clusters[name] = cmp.Or(firstLine(message), "Karmada has not applied the object yet")
			continue
		case members["health"] != "Healthy":
			health, _ := members["health"].(string)
			out.Clusters[name] = "its health is " + cmp.Or(health, "Unknown")
		case slices.Contains(chosen, name):
			out.Clusters[name] = olderReplicas(o, members)
		default:
			out.Clusters[name] = "Karmada has not chosen this cluster, and is removing the object from it"
		}
		out.Absent = slices.DeleteFunc(out.Absent, func(chosen string) bool { return chosen == name })
	}
	return out
}

// olderReplicas says how many replicas of a Deployment in a cluster are from before its last rollout; "" if none, or if that is not
// reported. Karmada reports a Deployment as healthy as soon as all new replicas exist, and as many are available, which may be the old
// ones.
func olderReplicas(binding *unstructured.Unstructured, cluster map[string]any) string {
	kind, _, _ := unstructured.NestedString(binding.Object, "spec", "resource", "kind")
	all, _, _ := unstructured.NestedInt64(cluster, "status", "replicas")
	updated, _, _ := unstructured.NestedInt64(cluster, "status", "updatedReplicas")
	if kind != "Deployment" || updated >= all {
		return ""
	}
	return fmt.Sprintf("%d of %d replicas are from before the last rollout", all-updated, all)
}

// kubeFleetReporter reads the status of placements. KubeFleet leaves a cluster out of the status as soon as it is not chosen any more, and
// deletes its binding within 30 seconds. The Work, which the reporter does not read, stays until the agent of the cluster has removed the
// object.
var kubeFleetReporter = &reporter{
	observe:      observePlacement,
	removeAtOnce: kubeFleetRemoveAtOnce,
	clusters:     pickFixedOf,
	carried:      pickFixedOf,
	chooses:      func(*unstructured.Unstructured) bool { return false },
}

// kubeFleetWorks are the kinds of the objects by which KubeFleet carries placed objects to single clusters: its Works.
var kubeFleetWorks = []Kind{{GroupVersionResource: kubeFleetVersion.WithResource("works"), Kind: "Work", Namespaced: true}}

// carriedByWork reads a Work of KubeFleet. Its labels name the placement of the placed object and, unless that is cluster-scoped, its
// namespace. The namespace of the Work is "fleet-member-" and the name of the cluster. ok is false without that prefix, or without the name
// of a placement. It does not set Missing and Absent: whether the object runs is in the placement.
func carriedByWork(o *unstructured.Unstructured) (out Carried, ok bool) {
	out.Cluster, ok = strings.CutPrefix(o.GetNamespace(), "fleet-member-")
	labels := o.GetLabels()
	out.Name, out.Namespace = labels["kubernetes-fleet.io/parent-CRP"], labels["kubernetes-fleet.io/parent-placement-namespace"]
	return out, ok && out.Name != ""
}

// ocmWorks are the kinds of the objects by which a ManifestWorkReplicaSet of Open Cluster Management carries placed objects to single
// clusters: ManifestWorks.
var ocmWorks = []Kind{{
	GroupVersionResource: schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"},
	Kind:                 "ManifestWork", Namespaced: true,
}}

// carriedByManifestWork reads a ManifestWork of Open Cluster Management that a ManifestWorkReplicaSet wrote. By its labels, it returns the
// namespace of that set, and the name of the Placement as the name of what is carried; ok is false without these labels. The cluster is the
// namespace of the ManifestWork, whose finalizer keeps it until the agent has removed the objects from the cluster. The conditions are
// those of the agent for works at commit 00f84c32b, after version 1.3.1: Available means that the objects exist. How many replicas are
// ready is only there if the ManifestWork has feedbackRules of the type WellKnownStatus.
func carriedByManifestWork(o *unstructured.Unstructured) (out Carried, ok bool) {
	labels := o.GetLabels()
	out.Namespace, _, ok = strings.Cut(labels["work.open-cluster-management.io/manifestworkreplicaset"], ".")
	out.Name, out.Cluster = labels["work.open-cluster-management.io/placementname"], o.GetNamespace()
	if o.GetDeletionTimestamp() != nil {
		out.Missing = ocmTitle + " is removing it"
		return out, ok && out.Name != ""
	}
	var status manifestWorkStatus
	members, _, _ := unstructured.NestedMap(o.Object, "status")
	// What can't be decoded is missing, so the object does not count as running.
	_ = numeral.FromUnstructured(members, &status)
	out.Missing = cmp.Or(missingIn(ocmTitle, status.Conditions, o.GetGeneration()), status.unready())
	out.Absent = !meta.IsStatusConditionTrue(status.Conditions, "Applied")
	return out, ok && out.Name != ""
}

// manifestWorkStatus is what Berth reads of the status of a ManifestWork: its conditions, and for each manifest the values that its
// feedback rules report, such as the number of replicas.
type manifestWorkStatus struct {
	Conditions     []metav1.Condition `json:"conditions"`
	ResourceStatus struct {
		Manifests []struct {
			StatusFeedback struct {
				Values []struct {
					Name       string `json:"name"`
					FieldValue struct {
						Integer int64 `json:"integer"`
					} `json:"fieldValue"`
				} `json:"values"`
			} `json:"statusFeedback"`
		} `json:"manifests"`
	} `json:"resourceStatus"`
}

// unready says how many replicas of an object are ready, if not all are; "" if all are, or if that is not reported. A number that is not
// reported counts as 0.
func (s manifestWorkStatus) unready() string {
	for _, manifest := range s.ResourceStatus.Manifests {
		reported := map[string]int64{}
		for _, value := range manifest.StatusFeedback.Values {
			reported[value.Name] = value.FieldValue.Integer
		}
		if all, ready := reported["Replicas"], reported["ReadyReplicas"]; ready < all {
			return fmt.Sprintf("%d of %d replicas are ready", ready, all)
		}
	}
	return ""
}

// pickFixedOf returns the cluster names in a placement of KubeFleet, sorted.
func pickFixedOf(o *unstructured.Unstructured) []string {
	names, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "policy", "clusterNames")
	slices.Sort(names)
	return names
}

// observePlacement reads the status of a ResourcePlacement or ClusterResourcePlacement of KubeFleet. Conditions of other generations than
// the placement's own do not count: they may be of clusters that the placement left and came back to.
func observePlacement(o *unstructured.Unstructured) Observation {
	out := Observation{Current: true, Clusters: map[string]string{}}
	out.Revision, _, _ = unstructured.NestedString(o.Object, "status", "observedResourceIndex")
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "placementStatuses")
	for _, item := range list {
		var status struct {
			ClusterName string             `json:"clusterName"`
			Conditions  []metav1.Condition `json:"conditions"`
		}
		members, _ := item.(map[string]any)
		// What can't be decoded is missing, so the object does not count as running.
		_ = numeral.FromUnstructured(members, &status)
		if status.ClusterName != "" {
			out.Clusters[status.ClusterName] = missingIn("KubeFleet", status.Conditions, o.GetGeneration())
			if !meta.IsStatusConditionTrue(status.Conditions, "Applied") {
				out.Absent = append(out.Absent, status.ClusterName)
			}
		}
	}
	return out
}

// missingIn says which of the conditions Applied and Available is not true, or not reported yet, for a generation; "" if both are true.
// title is that of the system that sets them.
func missingIn(title string, conditions []metav1.Condition, generation int64) string {
	for _, kind := range []string{"Applied", "Available"} {
		switch c := meta.FindStatusCondition(conditions, kind); {
		case c == nil, c.ObservedGeneration != generation:
			return title + " has not reported the condition " + kind + " yet"
		case c.Status != metav1.ConditionTrue:
			return "condition " + kind + " is " + string(c.Status) + ": " + cmp.Or(firstLine(c.Message), c.Reason)
		}
	}
	return ""
}

// namesOf returns the string member "name" of each object in a list that has one.
func namesOf(list []any) []string {
	var out []string
	for _, item := range list {
		members, _ := item.(map[string]any)
		if name, ok := members["name"].(string); ok {
			out = append(out, name)
		}
	}
	return out
}

// firstLine returns the first line of a message of a system. It cuts a longer line after 200 bytes, drops a character that this cuts in
// two, and appends "...".
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	const limit = 200
	if len(line) > limit {
		line = strings.ToValidUTF8(line[:limit], "") + "..."
	}
	return line
}
