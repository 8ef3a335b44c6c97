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

// Package lifecycle_test shows what happens when replicas, policies and what they depend on come, go and fail.
package lifecycle_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var f *framework.Framework

func TestLifecycle(t *testing.T) {
	suite.Run(t, "Lifecycle")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallPlugin(ctx)
	f.InstallClusterProfiles(ctx)
})

// start starts a replica that the spec's end stops.
func start(ctx context.Context, tune ...func(*setup.Options)) *framework.Manager {
	GinkgoHelper()
	m := f.StartReadyManager(ctx, tune...)
	DeferCleanup(m.Stop)
	f.AwaitValidation(ctx)
	return m
}

// zone places everything into a zone.
func zone(value string) string {
	return framework.Rego(fmt.Sprintf(`annotations["example.com/zone"] := %q`, value))
}

// condition returns a policy's condition as "status/reason".
func condition(ctx context.Context, policy, conditionType string) (string, error) {
	p := &placementv1.PlacementPolicy{}
	if err := f.Client.Get(ctx, client.ObjectKey{Name: policy}, p); err != nil {
		return "", err
	}
	for _, c := range p.Status.Conditions {
		if c.Type == conditionType {
			return string(c.Status) + "/" + c.Reason, nil
		}
	}
	return "", nil
}

// startFirst starts a manager that judges policies, and returns how to stop it before the spec ends.
func startFirst(ctx context.Context) (stop func()) {
	GinkgoHelper()
	stop = sync.OnceFunc(f.StartReadyManager(ctx).Stop)
	DeferCleanup(stop)
	f.AwaitValidation(ctx)
	return stop
}

// unjudged changes a policy while no webhook judges policies.
func unjudged(ctx context.Context, name string, change func(*placementv1.PlacementPolicy)) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		hook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		hook.Name = "berth-policies"
		if err := client.IgnoreNotFound(f.Client.Delete(ctx, hook)); err != nil {
			return err
		}
		p := &placementv1.PlacementPolicy{}
		if err := f.Client.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
			return err
		}
		change(p)
		return f.Client.Update(ctx, p)
	}).WithContext(ctx).Should(Succeed())
}

// breakPolicy gives a policy a text that does not compile, as is possible while no webhook validates policies.
func breakPolicy(ctx context.Context, name string) {
	GinkgoHelper()
	unjudged(ctx, name, func(p *placementv1.PlacementPolicy) {
		p.Spec.Rego = `package placement

this is not rego`
	})
}
