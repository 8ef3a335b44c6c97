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

// Package remoteengine_test shows policies that a real OPA server decides, on a real API server, with a proxy between
// Berth and the server that injects faults.
package remoteengine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/framework/opaserver"
	"github.com/berth-dev/berth/test/suite"
)

// zoneKey is what the specs' policies set.
const zoneKey = "example.com/zone"

var (
	f *framework.Framework
	// operator is nil while it is stopped.
	operator *framework.Manager
)

func TestRemoteEngine(t *testing.T) {
	suite.Run(t, "Remote engines")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	DeferCleanup(stopOperator)
	f.InstallClusterProfiles(ctx)
})

// Every spec finds the operator running and ready, whatever the spec before did to it.
var _ = BeforeEach(func(ctx SpecContext) {
	if operator == nil {
		startOperator(ctx)
	}
})

func startOperator(ctx context.Context) {
	GinkgoHelper()
	operator = f.StartReadyManager(ctx)
	f.AwaitValidation(ctx)
}

func stopOperator() { framework.StopManager(&operator) }

// startOPA starts a server for the spec that loads these rules, of the package placement, at every start.
func startOPA(rules ...string) *opaserver.Server {
	GinkgoHelper()
	return opaserver.Start(GinkgoTB(), opaserver.Options{Files: map[string]string{"placement.rego": framework.Rego(rules...)}})
}

// zone is the rule that says a zone.
func zone(z string) string { return fmt.Sprintf("annotations[%q] := %q", zoneKey, z) }

// document is where servers have the package placement.
const document = "/v1/data/placement"

// elsewhere is a policy on the ConfigMaps of a namespace that the document at url decides.
func elsewhere(namespace, url string, tune ...func(*placementv1.PlacementPolicy)) *placementv1.PlacementPolicy {
	p := framework.NewPolicy(framework.NewName("remote"), "", "", "configmaps", namespace)
	p.Spec.Remote = &placementv1.Remote{URL: url, Insecure: strings.HasPrefix(url, "http://")}
	for _, t := range tune {
		t(p)
	}
	return p
}

// onConfigMaps is a ready policy on the ConfigMaps of a namespace that the document at url decides.
func onConfigMaps(ctx context.Context, namespace, url string, tune ...func(*placementv1.PlacementPolicy)) string {
	GinkgoHelper()
	p := elsewhere(namespace, url, tune...)
	f.CreateReadyPolicy(ctx, p)
	return p.Name
}

func withUndefined(u placementv1.UndefinedResult) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) { p.Spec.Remote.Undefined = u }
}

// create creates a ConfigMap.
func create(ctx context.Context, namespace, name string) error {
	return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, name, nil))
}

// stored returns the annotations of a ConfigMap without those that Berth keeps its books in.
func stored(ctx context.Context, namespace, name string) (map[string]string, error) {
	obj, err := f.Get(ctx, framework.ConfigMap, namespace, name)
	return framework.AnnotationsOf(obj), err
}

// zoned matches annotations that say a zone and nothing else.
func zoned(z string) OmegaMatcher { return Equal(map[string]string{zoneKey: z}) }
