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

// Package hostile_test attacks Berth on a real API server, as a user who may not change policies would. Each spec is an
// attack that once succeeded. docs/security.md names the guarantee that each spec shows.
package hostile_test

import (
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

func TestHostile(t *testing.T) {
	suite.Run(t, "Hostile")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx, presentClientCertificate)
	DeferCleanup(f.Stop)
	DeferCleanup(stopOperator)
})

// Every spec starts with a ready operator, whatever the previous spec did to it.
var _ = BeforeEach(startOperator)

func startOperator(ctx SpecContext) {
	GinkgoHelper()
	if operator != nil {
		return
	}
	operator = f.StartReadyManager(ctx)
	f.AwaitValidation(ctx)
}

func stopOperator() { framework.StopManager(&operator) }
