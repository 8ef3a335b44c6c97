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
	"cmp"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/third_party/forked/golang/btree"
)

var (
	_ fwk.SharedLister        = &Snapshot{}
	_ fwk.NodeInfoLister      = &Snapshot{}
	_ fwk.StorageInfoLister   = &Snapshot{}
	_ fwk.PodGroupStateLister = noPodGroups{}
)

// Snapshot is an immutable view of a NodeCache: its nodes and the pods on them. A snapshot of clusters has clusters in
// place of nodes. Plugins get it as the scheduler's SharedLister.
//
// It replaces the scheduler's own snapshot, which is either rebuilt for each change or overwritten by each scheduling
// cycle. Consecutive snapshots share what did not change: an unchanged node has the identical NodeInfo. A NodeInfo in a
// snapshot must not be changed. To change it, take a copy (fwk.NodeInfo.Snapshot).
type Snapshot struct {
	revision uint64
	names    []string       // The sorted names of the candidates.
	infos    []fwk.NodeInfo // The NodeInfos of the candidates, in the order of names.
	// pods are all pods that are bound to nodes, even to unknown ones. It is nil in a snapshot of clusters.
	pods *btree.BTree[record]
	// namespaces are sorted by name. Snapshots share the slice as long as no namespace changes.
	namespaces []*corev1.Namespace
	// unlimited are the candidates whose resources are unknown.
	unlimited sets.Set[string]

	// affinity returns the nodes that have pods with affinity, and antiAffinity those that have pods with required anti-affinity. They are
	// computed on first use.
	affinity, antiAffinity func() []fwk.NodeInfo
	// claims returns the claims that pods use, as "namespace/name". They are computed on first use.
	claims func() sets.Set[string]
}

// newSnapshot returns a snapshot with the candidates of s, and sets its functions that are computed on first use.
func newSnapshot(s Snapshot) *Snapshot {
	infos := s.infos
	s.affinity = having(infos, fwk.NodeInfo.GetPodsWithAffinity)
	s.antiAffinity = having(infos, fwk.NodeInfo.GetPodsWithRequiredAntiAffinity)
	s.claims = sync.OnceValue(func() sets.Set[string] {
		claims := sets.New[string]()
		for _, info := range infos {
			for claim := range info.GetPVCRefCounts() {
				claims.Insert(claim)
			}
		}
		return claims
	})
	return &s
}

// having returns a function that returns the nodes for which pods returns any pods. It computes them once.
func having(infos []fwk.NodeInfo, pods func(fwk.NodeInfo) []fwk.PodInfo) func() []fwk.NodeInfo {
	return sync.OnceValue(func() []fwk.NodeInfo {
		n := 0
		for _, info := range infos {
			n += min(len(pods(info)), 1)
		}
		out := make([]fwk.NodeInfo, 0, n)
		for _, info := range infos {
			if len(pods(info)) > 0 {
				out = append(out, info)
			}
		}
		return out
	})
}

// with returns a copy of the snapshot with other NodeInfos, which are given by index, for some candidates.
func (s *Snapshot) with(others map[int]fwk.NodeInfo) *Snapshot {
	next := *s
	next.infos = slices.Clone(s.infos)
	affinity, antiAffinity := false, false
	for i, info := range others {
		next.infos[i] = info
		for _, either := range []fwk.NodeInfo{info, s.infos[i]} {
			affinity = affinity || len(either.GetPodsWithAffinity()) > 0
			antiAffinity = antiAffinity || len(either.GetPodsWithRequiredAntiAffinity()) > 0
		}
	}
	out := newSnapshot(next)
	// Most changes do not affect these lists.
	if !affinity {
		out.affinity = s.affinity
	}
	if !antiAffinity {
		out.antiAffinity = s.antiAffinity
	}
	return out
}

// Revision returns the snapshot's revision, which is never 0. It grows with every change of a NodeCache that a predicate can see, and is 1
// for a snapshot of clusters.
func (s *Snapshot) Revision() uint64 { return s.revision }

// Len returns the number of candidates.
func (s *Snapshot) Len() int { return len(s.infos) }

// NodeInfos returns the snapshot, which lists its candidates. It implements fwk.SharedLister.
func (s *Snapshot) NodeInfos() fwk.NodeInfoLister { return s }

// StorageInfos returns the snapshot, which tells which claims pods use. It implements fwk.SharedLister.
func (s *Snapshot) StorageInfos() fwk.StorageInfoLister { return s }

// PodGroupStates implements fwk.SharedLister. There are no pod groups: only the scheduler's queue knows them.
func (s *Snapshot) PodGroupStates() fwk.PodGroupStateLister { return noPodGroups{} }

// List implements fwk.NodeInfoLister. It returns all candidates, sorted by name. Callers must not change the slice.
func (s *Snapshot) List() ([]fwk.NodeInfo, error) { return s.infos, nil }

// HavePodsWithAffinityList returns the candidates with pods that have pod affinity or anti-affinity. It implements fwk.NodeInfoLister.
func (s *Snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return s.affinity(), nil
}

// HavePodsWithRequiredAntiAffinityList returns the candidates with pods that have required pod anti-affinity. It implements
// fwk.NodeInfoLister.
func (s *Snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.antiAffinity(), nil
}

// Get returns the candidate with the name, or an error if there is none. It implements fwk.NodeInfoLister.
func (s *Snapshot) Get(name string) (fwk.NodeInfo, error) {
	if info, ok := s.candidate(name); ok {
		return info, nil
	}
	return nil, fmt.Errorf("the plugin asked for node %q, which Berth's snapshot does not have", name)
}

// IsPVCUsedByPods reports whether a pod on one of the nodes uses the claim "namespace/name". It implements fwk.StorageInfoLister.
func (s *Snapshot) IsPVCUsedByPods(key string) bool { return s.claims().Has(key) }

// noPodGroups implements fwk.PodGroupStateLister without pod groups.
type noPodGroups struct{}

// Get returns an error: there is no pod group.
func (noPodGroups) Get(namespace, name string) (fwk.PodGroupState, error) {
	return nil, fmt.Errorf("the plugin asked for pod group %s/%s, and Berth has no pod groups", namespace, name)
}

// candidate returns the node or cluster with the name; false if there is none.
func (s *Snapshot) candidate(name string) (fwk.NodeInfo, bool) {
	i, ok := slices.BinarySearch(s.names, name)
	if !ok {
		return nil, false
	}
	return s.infos[i], true
}

// namespace returns the namespace with the name; false if there is none.
func (s *Snapshot) namespace(name string) (*corev1.Namespace, bool) {
	i, ok := slices.BinarySearchFunc(s.namespaces, name, func(n *corev1.Namespace, name string) int {
		return cmp.Compare(n.Name, name)
	})
	if !ok {
		return nil, false
	}
	return s.namespaces[i], true
}

// hasUnlimitedResources reports whether a candidate's resources are unknown. No Allocatable can express this, because a
// pod may request resources of any name. So plugins that check resources are skipped for such candidates.
func (s *Snapshot) hasUnlimitedResources(name string) bool { return s.unlimited.Has(name) }

// without returns the snapshot without some pods of a namespace: those that the selector own selects, and the one with
// the name. A nil selector selects none. Candidates without such pods keep their NodeInfos.
func (s *Snapshot) without(namespace string, own labels.Selector, name string) *Snapshot {
	if s.pods == nil || own == nil && name == "" {
		return s
	}
	gone := map[string][]*corev1.Pod{}
	note := func(p *pod) {
		gone[p.object.Spec.NodeName] = append(gone[p.object.Spec.NodeName], &p.object)
	}
	if own == nil {
		if r, ok := s.pods.Get(at(namespace, name)); ok {
			note(r.pod)
		}
	} else {
		s.pods.AscendGreaterOrEqual(at(namespace, ""), func(r record) bool {
			if r.namespace != namespace {
				return false
			}
			if r.name == name || own.Matches(labels.Set(*r.pod.labels)) {
				note(r.pod)
			}
			return true
		})
	}
	others := make(map[int]fwk.NodeInfo, len(gone))
	for node, pods := range gone {
		if i, known := slices.BinarySearch(s.names, node); known {
			others[i] = withoutPods(s.infos[i], pods)
		}
	}
	if len(others) == 0 {
		return s
	}
	return s.with(others)
}

// withoutPods returns a copy of a NodeInfo without the given pods. It keeps the host ports that the remaining pods use.
func withoutPods(info fwk.NodeInfo, pods []*corev1.Pod) fwk.NodeInfo {
	out := info.Snapshot()
	for _, p := range pods {
		leave(out, p)
	}
	return out
}

// leave removes a pod from a NodeInfo, but keeps the host ports that other pods there use.
func leave(info fwk.NodeInfo, p *corev1.Pod) {
	// The only possible error is that the pod is not there.
	_ = info.RemovePod(klog.Background(), p)
	if len(schedutil.GetHostPorts(p)) == 0 {
		return
	}
	// NodeInfo does not count the users of a port: RemovePod also removes ports that other pods use. Add those again.
	for _, other := range info.GetPods() {
		for _, port := range schedutil.GetHostPorts(other.GetPod()) {
			info.GetUsedPorts().Add(port.HostIP, string(port.Protocol), port.HostPort)
		}
	}
}
