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

// Package quotadifferential_test compares ScopedQuota with Kubernetes' own ResourceQuota: the same quotas in two
// namespaces, the same requests in both, on an API server whose objects kube-controller-manager looks after.
// LimitedResource is not compared: upstream has it in a file of the API server's.
package quotadifferential_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	f        *framework.Framework
	operator *framework.Manager
)

// reservationTTL is how long a charge waits for an object that does not come. No request here takes nearly that long.
const reservationTTL = 3 * time.Second

func TestQuotaDifferential(t *testing.T) {
	suite.Run(t, "Quota, differential")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx, framework.WithControllerManager)
	DeferCleanup(f.Stop)
	// First of all: kube-controller-manager takes half a minute to see that there is another type to count.
	f.InstallCRD(ctx, framework.NewCRD(widgets.Group, widgets.Version, widgets.Resource, "Widget", apiextensionsv1.NamespaceScoped))
	createClasses(ctx)
	operator = f.StartReadyManager(ctx, func(o *setup.Options) { o.ReservationTTL = reservationTTL })
	DeferCleanup(operator.Stop)
})
