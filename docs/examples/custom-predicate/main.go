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
		Name: "Maintenance", Candidates: app.Nodes, Local: true,
		New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return maintenance{}, nil },
	}))
}
