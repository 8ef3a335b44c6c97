// Package admission_test shows what the webhooks do, on a real API server.
package admission_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/framework"
)

var f *framework.Framework

func TestAdmission(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Admission")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
})
