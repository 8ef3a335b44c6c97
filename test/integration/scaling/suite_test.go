// Package scaling_test shows what several replicas of the operator do, as processes that can be lost, and measures what
// one of them takes.
package scaling_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/framework"
)

// benchmarks is the label of specs that are benchmarks, and run under "go test -bench" alone.
const benchmarks = "benchmark"

var (
	f        *framework.Framework
	commands *framework.Commands
)

func TestScaling(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter == "" {
		suite.LabelFilter = "!" + benchmarks
	}
	RunSpecs(t, "Scaling", suite, reporter)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	commands = f.NewCommands(ctx)
})
