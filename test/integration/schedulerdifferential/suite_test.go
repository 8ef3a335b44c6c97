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

// Package schedulerdifferential_test compares the verdicts of predicates with those of a real kube-scheduler: generated
// nodes and pods are created on an API server beside which it runs, and what it does with a pod is held against what
// predicates said of the very same world just before. Nodes are objects and no more: what is bound to them does not run.
//
// An extender of the scheduler's, which is the documented way to receive the scheduler's pods, records on which nodes
// all filters passed, and can hold a pod back so that the world stays as it is.
//
// What is not compared, since it is not the default predicates' to say: volumes (their predicates are opt-in), resource
// claims (predicates of a snapshot have no allocator), scheduling gates (such a pod is never filtered), features that
// nodes declare (NodeDeclaredFeatures filters by what a kubelet says of itself), spec.nodeName (the scheduler leaves
// such a pod alone), and tolerations with Gt and Lt, which the API server refuses while their feature gate is off.
package schedulerdifferential_test

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/predicates/predicatestest"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

// The seed is Ginkgo's: go test ./test/integration/schedulerdifferential -args -rounds=500 -ginkgo.seed=7.
var rounds = flag.Int("rounds", budget.Rounds(8), "number of worlds that are generated, with some fifty pods each")

var (
	f     *framework.Framework
	asked *extender
)

func TestSchedulerDifferential(t *testing.T) {
	suite.Run(t, "Scheduler, differential")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	asked = &extender{feasible: map[string][]string{}}
	server := httptest.NewServer(http.HandlerFunc(asked.filter))
	DeferCleanup(server.Close)
	f = framework.StartEmpty(ctx, func(o *controlplane.Options) {
		o.Scheduler, o.SchedulerConfiguration = true, &schedulerv1.KubeSchedulerConfiguration{
			Extenders: []schedulerv1.Extender{{
				URLPrefix: server.URL, FilterVerb: "filter", NodeCacheCapable: true,
				HTTPTimeout: metav1.Duration{Duration: framework.Timeout},
			}},
		}
		// The default is for a cluster that others use too.
		connection := &o.SchedulerConfiguration.ClientConnection
		connection.QPS, connection.Burst = 1000, 2000
		// Nodes have the taints that they are created with: no controller removes the taint of a new node.
		o.APIServerFlags = map[string]string{"disable-admission-plugins": "ServiceAccount,TaintNodesByCondition"}
	})
	DeferCleanup(f.Stop)
	// The API server warns of a selector that selects nothing, which is wanted here.
	quiet := rest.CopyConfig(f.Config)
	quiet.WarningHandler = rest.NoWarnings{}
	var err error
	f.Client, err = client.NewWithWatch(quiet, client.Options{Scheme: f.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(f.Client.Create(ctx, predicatestest.RuntimeClass())).To(Succeed())
})
