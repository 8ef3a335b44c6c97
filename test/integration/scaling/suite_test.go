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

// Package scaling_test shows what several replicas of the operator do, as processes that can be lost, and measures what
// one of them takes.
package scaling_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	f        *framework.Framework
	commands *framework.Commands
)

func TestScaling(t *testing.T) {
	suite.Run(t, "Scaling")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	path, audit := framework.AuditLog([]string{"patch"}, []string{"deployments.apps", "placementpolicies/status.placement.berth.dev"})
	auditLog = path
	f = framework.Start(ctx, audit)
	DeferCleanup(f.Stop)
	f.InstallClusterProfiles(ctx)
	commands = f.NewCommands(ctx)
})

// A leader that the spec before killed would hold its lease until it expires.
var _ = BeforeEach(func(ctx SpecContext) {
	Expect(f.Client.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(framework.OperatorNamespace))).To(Succeed())
})
