package events_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/internal/events"
)

// emitted is what an event says.
type emitted struct {
	About                      corev1.ObjectReference
	Type, Reason, Action, Note string
}

type recorder struct{ all []emitted }

func (r *recorder) Eventf(about, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.all = append(r.all, emitted{*about.(*corev1.ObjectReference), eventType, reason, action, fmt.Sprintf(note, args...)})
}

func TestEvents(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
	}}
	unnamed := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"generateName": "web-"},
	}}
	about := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7"}
	policy := &corev1.ObjectReference{APIVersion: "placement.berth.dev/v1alpha1", Kind: "PlacementPolicy", Name: "p", UID: "q"}
	tests := map[string]struct {
		emit func(*events.Recorder)
		want emitted
	}{
		"Denied":           {func(r *events.Recorder) { r.Denied(obj, "shop", "no %d") }, emitted{about, "Warning", "PlacementDenied", "Admit", "no %d"}},
		"EvaluationFailed": {func(r *events.Recorder) { r.EvaluationFailed(obj, "shop", "oh") }, emitted{about, "Warning", "PlacementEvaluationFailed", "Admit", "oh"}},
		"Remediated":       {func(r *events.Recorder) { r.Remediated(obj, "done") }, emitted{about, "Normal", "PlacementRemediated", "Remediate", "done"}},
		"Failed":           {func(r *events.Recorder) { r.RemediationFailed(obj, "oh") }, emitted{about, "Warning", "PlacementRemediationFailed", "Remediate", "oh"}},
		"Stopped":          {func(r *events.Recorder) { r.RemediationStopped(obj, "oh") }, emitted{about, "Warning", "PlacementRemediationStopped", "Remediate", "oh"}},
		"RemoteFailing":    {func(r *events.Recorder) { r.RemoteFailing(policy, "refused") }, emitted{*policy, "Warning", "RemoteEngineFailing", "Ask", "refused"}},
		"RemoteRecovered":  {func(r *events.Recorder) { r.RemoteRecovered(policy, "answers") }, emitted{*policy, "Normal", "RemoteEngineRecovered", "Ask", "answers"}},
		"NameToBeMade": {
			func(r *events.Recorder) { r.Denied(unnamed, "shop", "no") },
			emitted{corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web"}, "Warning", "PlacementDenied", "Admit", "no"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			tc.emit(events.New(r))
			if diff := cmp.Diff([]emitted{tc.want}, r.all); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// The events API refuses longer notes.
func TestNotesAreBounded(t *testing.T) {
	for _, n := range []int{0, 1023, 1024, 1025, 5000} {
		r := &recorder{}
		events.New(r).Denied(&unstructured.Unstructured{Object: map[string]any{}}, "", "x"+strings.Repeat("é", n))
		note := r.all[0].Note
		if len(note) > 1024 || !utf8.ValidString(note) {
			t.Errorf("note of %d bytes", len(note))
		}
		if len(note) < min(1+2*n, 1020) {
			t.Errorf("of %d bytes %d are left", 1+2*n, len(note))
		}
	}
}
