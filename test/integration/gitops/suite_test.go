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

// Package gitops_test holds what docs/gitops.md says of Argo CD and Flux against a real API server: how they read the
// health of Berth's objects, and what they see of the values that policies write.
package gitops_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

const (
	root     = "../../.."
	examples = "docs/examples/gitops/"
)

var f *framework.Framework

func TestGitOps(t *testing.T) {
	suite.Run(t, "GitOps")
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
