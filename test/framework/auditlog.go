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
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/test/controlplane"
)

// AuditLog has the API server that is started with its second result write an audit log of requests with some verbs for
// some resources, such as pods and deployments.apps, with their metadata. The first result is the log's path.
func AuditLog(verbs, resources []string) (path string, tune func(*controlplane.Options)) {
	ginkgo.GinkgoHelper()
	dir := ginkgo.GinkgoT().TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	path = filepath.Join(dir, "audit.log")
	var groups []string
	for _, r := range resources {
		parsed := schema.ParseGroupResource(r)
		groups = append(groups, fmt.Sprintf("{group: %q, resources: [%s]}", parsed.Group, parsed.Resource))
	}
	gomega.Expect(os.WriteFile(policy, fmt.Appendf(nil, `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [%s]
  resources: [%s]
- level: None
`, strings.Join(verbs, ", "), strings.Join(groups, ", ")), 0o600)).To(gomega.Succeed())
	return path, func(o *controlplane.Options) {
		o.APIServerFlags = map[string]string{"audit-policy-file": policy, "audit-log-path": path}
	}
}
