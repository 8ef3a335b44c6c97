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

// Package quota_test shows what the kinds of quota accept and do, on a real API server.
package quota_test

import (
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	f *framework.Framework
	// operator is nil while it is stopped.
	operator *framework.Manager
)

func TestQuota(t *testing.T) {
	suite.Run(t, "Quota")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	DeferCleanup(stopOperator)
	if !f.Serves("storage.k8s.io/v1", "volumeattributesclasses") {
		// A ResourceQuota can't have the scope there.
		scopes = slices.DeleteFunc(scopes, func(scope string) bool { return scope == "VolumeAttributesClass" })
	}
})

// Every spec finds the operator running and ready, whatever the spec before did to it.
var _ = BeforeEach(startOperator)

func startOperator(ctx SpecContext) {
	GinkgoHelper()
	if operator == nil {
		operator = f.StartReadyManager(ctx)
		f.AwaitValidation(ctx)
	}
}

func stopOperator() { framework.StopManager(&operator) }
