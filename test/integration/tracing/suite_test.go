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

// Package tracing_test shows what a collector of traces and logs receives from Berth, on a real API server that traces too.
package tracing_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	f         *framework.Framework
	collected *collector
)

func TestTracing(t *testing.T) {
	suite.Run(t, "Tracing")
}

// everything is the sampling rate by which each trace is recorded.
const everything = 1_000_000

var _ = BeforeSuite(func(ctx SpecContext) {
	// For the API server's spans as for Berth's: else both wait five seconds.
	GinkgoT().Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	GinkgoT().Setenv("OTEL_BLRP_SCHEDULE_DELAY", "100")
	collected = startCollector()
	f = framework.Start(ctx, func(o *controlplane.Options) {
		file := filepath.Join(GinkgoT().TempDir(), "tracing.yaml")
		Expect(os.WriteFile(file, fmt.Appendf(nil,
			"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\nsamplingRatePerMillion: %d\n", collected.address, everything,
		), 0o600)).To(Succeed())
		o.APIServerFlags = map[string]string{"tracing-config-file": file}
	})
	DeferCleanup(f.Stop)
	operator := f.StartReadyManager(ctx, func(o *setup.Options) {
		o.TracingEndpoint, o.TracingSamplingPerMillion = "http://"+collected.address, everything
		o.DecisionLog = o.TracingEndpoint
	})
	DeferCleanup(operator.Stop)
})
