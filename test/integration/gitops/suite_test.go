// Package gitops_test holds what docs/gitops.md says of Argo CD and Flux against a real API server: how they read the
// health of Berth's objects, and what they see of the values that policies write.
package gitops_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/berth-dev/berth/test/framework"
)

const (
	root     = "../../.."
	examples = "docs/examples/gitops/"
)

var f *framework.Framework

func TestGitOps(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "GitOps")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
})

// read returns a file of the repository.
func read(path string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, path))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// live returns the object as the API server has it, and as both tools handle it.
func live(ctx context.Context, o client.Object) *unstructured.Unstructured {
	GinkgoHelper()
	gvk, err := apiutil.GVKForObject(o, f.Client.Scheme())
	Expect(err).NotTo(HaveOccurred())
	out, err := f.Get(ctx, gvk, o.GetNamespace(), o.GetName())
	Expect(err).NotTo(HaveOccurred())
	return out
}
