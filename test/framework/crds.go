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

package framework

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The definitions that other projects publish, in a file for each. They are not part of the repository. The variable comes
// before the directory, which is beside the repository's.
const (
	definitionsVariable  = "BERTH_TEST_CRDS"
	definitionsDirectory = "../shared/crds"
)

// PublishedCRD returns the definition that another project publishes, from a file such as openreports.io_reports.yaml. ok is
// false if the file does not exist.
func PublishedCRD(file string) (crd *apiextensionsv1.CustomResourceDefinition, ok bool) {
	ginkgo.GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(cmp.Or(os.Getenv(definitionsVariable), filepath.Join(moduleRoot(), definitionsDirectory)), file))
	if err != nil {
		return nil, false
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	gomega.Expect(yaml.Unmarshal(text, out)).To(gomega.Succeed())
	return out, true
}
