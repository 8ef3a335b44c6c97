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
