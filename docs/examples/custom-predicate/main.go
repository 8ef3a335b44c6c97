// Command custom-predicate is the manager of Berth with a predicate of one's own: Maintenance keeps pods off nodes that
// are labelled as in maintenance.
package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/cmd/manager/app"
)

type maintenance struct{}

func (maintenance) Name() string { return "Maintenance" }

func (maintenance) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if node.Node().Labels["example.com/maintenance"] != "true" {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) were in maintenance")
}

func main() {
	app.Main(app.WithPredicate(app.Predicate{
		Name: "Maintenance", Judges: app.Nodes, Local: true,
		New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return maintenance{}, nil },
	}))
}
