package predicates

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestWorldSmoke(t *testing.T) {
	w := NewWorld()
	if _, err := w.Snapshot(); err == nil || err.Error() != "namespaces, nodes, pods: not complete" {
		t.Fatal(err)
	}
	pod := parse(t, `{metadata: {name: p, namespace: d, uid: u, labels: {app: a}}, spec: {nodeName: node-a, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}`)
	w.Load(podResource, []*unstructured.Unstructured{pod})
	w.Load(nodeResource, []*unstructured.Unstructured{parse(t, `{metadata: {name: node-a}, status: {allocatable: {cpu: "4", pods: "10"}}}`)})
	w.Load(namespaceResource, nil)
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Get("node-a")
	if err != nil || info.GetRequested().GetMilliCPU() != 1000 {
		t.Fatal(info, err)
	}
	if got := s.without("d", nil, "p").infos[0].GetRequested().GetMilliCPU(); got != 0 {
		t.Fatal(got)
	}
	if w.Put(podResource, pod) {
		t.Fatal("again")
	}
	if !w.Delete(podResource, "d", "p") {
		t.Fatal("again")
	}
}
