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
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// defaultSurgeTimeout is how long an object keeps the clusters that it leaves if spec.delivery.surge does not say it.
const defaultSurgeTimeout = 10 * time.Minute

// surgeTimeout returns how long spec.delivery.surge, which must not be nil, lets an object stay in clusters that it leaves:
// defaultSurgeTimeout if Timeout is nil. A Timeout of 0 is no time.
func surgeTimeout(s *placementv1.Surge) time.Duration {
	if s.Timeout == nil {
		return defaultSurgeTimeout
	}
	return s.Timeout.Duration
}

// Handover is what has to exist in a system now for a placed object, the clusters in which the object stays although they are not decided,
// and whether it runs where it is decided.
type Handover struct {
	Objects []Delivered // the delivered objects that have to exist now
	// Alone are the delivered objects that have to exist if the API server refuses Objects: they have only the clusters of the decision. It
	// is nil if no cluster is kept.
	Alone []Delivered
	// Kept are the clusters in which the object stays although they are not decided, sorted.
	Kept  []string
	Until time.Time // when the first of the kept clusters is given up in any case; zero for never
	Run   Run
}

// HandOver returns what has to exist in the system for a placed object now. These are the objects of Render. If the policy has
// spec.delivery.surge, they also have the clusters that the placed object leaves, as long as it does not run in all clusters of the
// decision. live is the delivered object as it exists, or nil, and observed is what the system reports of the placed object, or nil. An
// annotation of live has the clusters to which Berth delivered, and since when each of them has not been decided. Clusters that another
// client added to live are not kept. The objects leave out clusters of the decision that have not joined the system, and their Note says
// so, if another one has joined.
//
// An object that contains others stays in a cluster that it leaves as long as they are there, with or without spec.delivery.surge.
//
// If the system can't express the decision, HandOver returns an error, and the objects that have to exist meanwhile; none if live has to
// stay.
//
// No cluster is kept if the decision is empty, if live was delivered for an earlier object of the name, if the system does not report where
// objects run, if it can't express the clusters together, if no decided cluster would get a part of the replicas, if there are too many
// clusters for the annotation, or after the timeout.
func (s System) HandOver(object Object, decision Decision, spec *placementv1.Delivery, live *unstructured.Unstructured,
	observed *Observation, now time.Time) (Handover, error) {
	unjoined := s.leaveOut(&decision, observed)
	out, err := s.handOverAll(object, decision, spec, live, observed, now)
	if len(unjoined) == 0 || err != nil {
		return out, err
	}
	first := "cluster " + unjoined[0] + ": it has not joined " + s.Title
	note := first
	if len(unjoined) > 1 {
		note = "clusters " + strings.Join(unjoined, ", ") + ": they have not joined " + s.Title
	}
	for i := range out.Objects {
		out.Objects[i].Note = note
	}
	if out.Run.State == Running {
		out.Run = Run{State: NotRunning, Message: first}
	}
	return out, nil
}

// leaveOut removes from a decision, and returns, the clusters that have not joined the system and in which the object is not yet. A system
// may wait for such clusters before it removes an object from another cluster. If no cluster has joined, the decision does not change:
// without a cluster, the object would be withdrawn.
func (s System) leaveOut(decision *Decision, observed *Observation) (unjoined []string) {
	var joined []string
	for _, name := range decision.Clusters {
		if slices.Contains(decision.Unjoined, name) && (observed == nil || !slices.Contains(observed.Present, name)) {
			unjoined = append(unjoined, name)
		} else {
			joined = append(joined, name)
		}
	}
	if len(joined) == 0 {
		return nil
	}
	decision.Clusters = joined
	return unjoined
}

// handOverAll returns what has to exist in the system for a placed object now, for a decision from which leaveOut has removed the clusters
// that have not joined. The object stays in the clusters that it leaves in which it contains others, and otherwise as spec.delivery.surge
// says. On an error, the result has the objects that have to exist meanwhile.
func (s System) handOverAll(object Object, decision Decision, spec *placementv1.Delivery, live *unstructured.Unstructured,
	observed *Observation, now time.Time) (Handover, error) {
	if stays := slices.DeleteFunc(s.Leaves(live, decision), func(name string) bool {
		return !slices.Contains(decision.Contained, name)
	}); len(stays) > 0 {
		return s.handOverContainer(object, decision, stays, spec, live, observed, now)
	}
	return s.handOver(object, decision, spec, live, observed, now)
}

// handOver returns what has to exist in the system for a placed object now, for a decision whose clusters have joined, and an object that
// need not stay in others because of what it contains.
func (s System) handOver(object Object, decision Decision, spec *placementv1.Delivery, live *unstructured.Unstructured,
	observed *Observation, now time.Time) (Handover, error) {
	final, err := s.Render(object, decision, spec)
	if err != nil {
		return Handover{Objects: s.withdraw(object, decision, spec, live)}, err
	}
	out := Handover{Objects: final}
	if s.reporter == nil {
		out.Run = s.runAsCarried(decision, observed)
		return out, nil
	}
	if live != nil && !ownedBy(live, object) {
		// Another object had the name before. Nothing brought this one to its clusters.
		live = nil
		if len(s.reporter.kinds) == 0 && observed != nil {
			observed = &Observation{Present: observed.Present}
		}
	}
	if len(final) == 0 {
		out.Run = s.run(object, nil, nil, observed)
		return out, nil
	}
	if len(decision.Clusters) == 0 {
		out.Run = s.run(object, final[0].Object, final[0].Object, observed)
		return out, nil
	}
	if spec != nil && spec.Surge != nil {
		since := map[string]string{}
		for _, name := range decision.Clusters {
			since[name] = ""
		}
		if live != nil {
			s.keep(&out, since, object, decision, spec, live, observed, now)
		}
		for _, o := range out.Objects {
			annotate(o.Object, since)
		}
		if len(out.Kept) > 0 {
			maps.DeleteFunc(since, func(_, time string) bool { return time != "" })
			for _, o := range final {
				annotate(o.Object, since)
			}
			out.Alone = final
		}
	}
	out.Run = s.run(object, final[0].Object, out.Objects[0].Object, observed)
	s.removeAtOnce(out.Objects, observed)
	s.removeAtOnce(out.Alone, observed)
	return out, nil
}

// removeAtOnce changes delivered objects so that the system removes the placed object at once from clusters that they do not name, if
// observed says that it is in such a cluster. It changes nothing for a system that does so anyway. Only spec.delivery.surge, and objects
// that the placed object contains, keep it in a cluster that it leaves.
func (s System) removeAtOnce(objects []Delivered, observed *Observation) {
	if s.reporter.removeAtOnce == nil || observed == nil {
		return
	}
	for _, o := range objects {
		carried := s.reporter.carried(o.Object)
		if slices.ContainsFunc(observed.Present, func(name string) bool { return !slices.Contains(carried, name) }) {
			s.reporter.removeAtOnce(o.Object)
		}
	}
}

// withdraw returns the delivered objects for a decision whose replicas the system can't divide as required. They remove the placed object
// from clusters that are not decided, so that a developer who requests too many replicas does not keep a cluster. The replicas are divided
// evenly instead. withdraw returns nil if the object is in no such cluster; it then stays where it is.
func (s System) withdraw(object Object, decision Decision, spec *placementv1.Delivery, live *unstructured.Unstructured) []Delivered {
	if s.reporter == nil || live == nil || spec.Replicas == nil {
		return nil
	}
	if !slices.ContainsFunc(s.reporter.carried(live), func(name string) bool { return !slices.Contains(decision.Clusters, name) }) {
		return nil
	}
	even := *spec
	even.Replicas = &placementv1.ReplicaDivision{DivideBy: placementv1.DivideEvenly}
	// If this fails, the replicas are not why.
	objects, _ := s.Render(object, Decision{Clusters: decision.Clusters}, &even)
	return objects
}

// ownedBy reports whether a delivered object was written for a placed object, and not for an earlier object of its name: one of its owner
// references has the UID of the placed object.
func ownedBy(delivered *unstructured.Unstructured, placed Object) bool {
	return slices.ContainsFunc(delivered.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == placed.UID })
}

// maxDeliveredClusters is the maximum length of the annotation with the clusters that Berth delivers to. The API server accepts
// 256 KiB in all annotations of an object together, and the system and other clients may add some.
const maxDeliveredClusters = 128 << 10

// encodeClusters returns the value of placementv1.DeliveredClustersAnnotation. since has, for each cluster to which Berth delivers, the
// time since when it has not been decided, or "". ok is false if the value would be too long.
func encodeClusters(since map[string]string) (text string, ok bool) {
	// This does not fail, because the members are texts.
	encoded, _ := json.Marshal(since)
	return string(encoded), len(encoded) <= maxDeliveredClusters
}

// annotate sets placementv1.DeliveredClustersAnnotation on a delivered object, unless the value would be too long.
func annotate(o *unstructured.Unstructured, since map[string]string) {
	if text, ok := encodeClusters(since); ok {
		// This does not fail, because the annotations of an object of newObject are a map.
		_ = unstructured.SetNestedField(o.Object, text, "metadata", "annotations", placementv1.DeliveredClustersAnnotation)
	}
}

// WithoutTimes returns a value of placementv1.DeliveredClustersAnnotation with "left" in place of each time, so that it depends only on
// which clusters are decided. A malformed value is returned as it is.
func WithoutTimes(text string) string {
	var since map[string]string
	if json.Unmarshal([]byte(text), &since) != nil {
		return text
	}
	for name, start := range since {
		if start != "" {
			since[name] = "left"
		}
	}
	out, _ := encodeClusters(since)
	return out
}

// keep adds the clusters in which spec.delivery.surge keeps an object to since, with the time since when they have not been decided. If
// there are any, it sets in h Objects, to the delivered objects that bring the object to them and to the clusters of the decision, Kept, to
// their names, and Until, to when the first of them is given up in any case. It changes nothing if no cluster is kept.
func (s System) keep(h *Handover, since map[string]string, object Object, decision Decision, spec *placementv1.Delivery,
	live *unstructured.Unstructured, observed *Observation, now time.Time) {
	timeout := surgeTimeout(spec.Surge)
	leaving := map[string]time.Time{}
	for name, start := range s.deliveredTo(live) {
		if _, decided := since[name]; decided {
			continue
		}
		// A client that wrote a time in the future would keep the cluster for longer.
		if start.IsZero() || start.After(now) {
			start = now
		}
		if start = start.UTC().Truncate(time.Second); now.Before(start.Add(timeout)) {
			leaving[name] = start
		}
	}
	objects := s.renderBoth(object, decision, spec, leaving)
	if len(leaving) == 0 || s.runsInAll(decision, object, objects[0].Object, observed) {
		return
	}
	all := maps.Clone(since)
	for name, start := range leaving {
		all[name] = start.Format(time.RFC3339)
	}
	if _, ok := encodeClusters(all); !ok {
		// Without the annotation, a cluster would be kept forever.
		return
	}
	maps.Copy(since, all)
	h.Objects = objects
	for name, start := range leaving {
		h.Kept = append(h.Kept, name)
		if end := start.Add(timeout); h.Until.IsZero() || end.Before(h.Until) {
			h.Until = end
		}
	}
	slices.Sort(h.Kept)
}

// renderBoth returns the delivered objects that bring a placed object to the clusters of a decision and to those that it leaves. It removes
// from leaving the clusters that would get no part of the replicas. It removes all clusters from leaving, and returns nil, if no decided
// cluster would get a part, because the object would not run there before it left them, or if the system can't express the clusters
// together.
func (s System) renderBoth(object Object, decision Decision, spec *placementv1.Delivery, leaving map[string]time.Time) []Delivered {
	for len(leaving) > 0 {
		both := decision
		both.Clusters = slices.Concat(decision.Clusters, slices.Collect(maps.Keys(leaving)))
		objects, err := s.Render(object, both, spec)
		if err != nil {
			break
		}
		carried := s.reporter.carried(objects[0].Object)
		if !slices.ContainsFunc(carried, func(name string) bool { return slices.Contains(decision.Clusters, name) }) {
			break
		}
		before := len(leaving)
		maps.DeleteFunc(leaving, func(name string, _ time.Time) bool { _, found := slices.BinarySearch(carried, name); return !found })
		if len(leaving) == before {
			return objects
		}
	}
	clear(leaving)
	return nil
}

// runsInAll reports whether an object runs in all clusters of a decision to which a delivered object (applied) brings it. It is also true
// if the system itself chooses among the clusters and chose none of the decision: there is nothing to wait for.
func (s System) runsInAll(decision Decision, object Object, applied *unstructured.Unstructured, observed *Observation) bool {
	running, why := s.runningIn(object, applied, observed)
	return why == "" && !slices.ContainsFunc(s.carried(applied, observed), func(name string) bool {
		return slices.Contains(decision.Clusters, name) && !running[name]
	})
}

// deliveredTo returns the clusters to which Berth brings an object by a delivered object (live), with the time since when each of them has
// not been decided; zero for those that were decided. It reads the annotation or, if the policy had no spec.delivery.surge before, the
// fields of live.
func (s System) deliveredTo(live *unstructured.Unstructured) map[string]time.Time {
	out := map[string]time.Time{}
	var since map[string]string
	if json.Unmarshal([]byte(live.GetAnnotations()[placementv1.DeliveredClustersAnnotation]), &since) == nil {
		for name, text := range since {
			// Without a valid time, the time starts now.
			out[name], _ = time.Parse(time.RFC3339, text)
		}
		return out
	}
	for _, name := range s.reporter.carried(live) {
		out[name] = time.Time{}
	}
	return out
}
