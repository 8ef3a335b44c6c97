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
	"net/url"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// WebhookPath returns the path by which the API server calls a webhook. The token in it is replaced from time to time.
func WebhookPath(w admissionregistrationv1.WebhookClientConfig) string {
	ginkgo.GinkgoHelper()
	if w.Service != nil {
		return *w.Service.Path
	}
	u, err := url.Parse(*w.URL)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return u.Path
}
