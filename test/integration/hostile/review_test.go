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

package hostile_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

// escaped is a value of nearly 1 MiB, the most that a ConfigMap holds. JSON in an admission review has each of its
// characters in six bytes.
var escaped = strings.Repeat("<", 1_000_000)

// warnings are what the API server warns of.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// put sends a ConfigMap as it is written, since client libraries would escape its characters, and returns the warnings.
func put(ctx context.Context, verb, namespace, name, contentType, body string) ([]string, error) {
	GinkgoHelper()
	config := rest.CopyConfig(f.Config)
	w := &warnings{}
	config.WarningHandler = w
	set, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	request := set.CoreV1().RESTClient().Verb(verb).Namespace(namespace).Resource("configmaps").SetHeader("Content-Type", contentType).Body([]byte(body))
	if name != "" {
		request = request.Name(name)
	}
	err = request.Do(ctx).Error()
	return w.texts, err
}

// createLarge creates a ConfigMap whose admission reviews, with object and old object, have more than 12 MB.
func createLarge(ctx context.Context, namespace string) {
	GinkgoHelper()
	_, err := put(ctx, "POST", namespace, "", "application/json",
		fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"text": %q}}`, escaped))
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("An admission review of many bytes", func() {
	for _, failure := range []placementv1.FailurePolicy{placementv1.FailurePolicyFail, placementv1.FailurePolicyIgnore} {
		It(fmt.Sprintf("is decided, with failurePolicy %s", failure), func(ctx SpecContext) {
			namespace := f.NewNamespace(ctx, nil)
			p := framework.NewPolicy(framework.NewName("deny"), framework.Rego(denyForbidden), "", "configmaps", namespace)
			p.Spec.FailurePolicy = failure
			f.CreateReadyPolicy(ctx, p)
			createLarge(ctx, namespace)
			_, err := put(ctx, "PATCH", namespace, "large", string(types.MergePatchType), `{"data": {"forbidden": "yes"}}`)
			Expect(err).To(MatchError(ContainSubstring("forbidden content")))
			_, err = put(ctx, "PATCH", namespace, "large", string(types.MergePatchType), `{"data": {"allowed": "yes"}}`)
			Expect(err).NotTo(HaveOccurred())
		})
	}

	// YAML's aliases make an object of a request that is larger than any request.
	aliases := func() string {
		var b strings.Builder
		fmt.Fprintf(&b, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: aliases}\ndata:\n  k0: &a %q\n", escaped)
		for i := range 6 {
			fmt.Fprintf(&b, "  k%d: *a\n", i+1)
		}
		return b.String()
	}

	// retryTimeout is how long to try again: on a busy machine, the API server takes more than the webhook's timeout of ten
	// seconds to encode and send such a review.
	const retryTimeout = 2 * time.Minute

	It("beyond what the API server stores is denied with failurePolicy Fail", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), framework.Rego(denyForbidden), "", "configmaps", namespace))
		Eventually(func(ctx context.Context) error {
			_, err := put(ctx, "POST", namespace, "", "application/yaml", aliases())
			return err
		}).WithContext(ctx).WithTimeout(retryTimeout).Should(MatchError(ContainSubstring("the admission review has 42")))
	})

	It("beyond what the API server stores is warned of with failurePolicy Ignore", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("deny"), framework.Rego(denyForbidden), "", "configmaps", namespace)
		p.Spec.FailurePolicy = placementv1.FailurePolicyIgnore
		f.CreateReadyPolicy(ctx, p)
		Eventually(func(g Gomega, ctx context.Context) {
			texts, err := put(ctx, "POST", namespace, "", "application/yaml", aliases())
			g.Expect(err).To(MatchError(ContainSubstring("Too long")), "what the API server itself says")
			g.Expect(texts).To(ContainElement(ContainSubstring("the admission review has 42")))
		}).WithContext(ctx).WithTimeout(retryTimeout).Should(Succeed())
		Eventually(func(ctx context.Context) ([]eventsv1.Event, error) {
			var told eventsv1.EventList
			err := f.Client.List(ctx, &told, client.InNamespace(namespace))
			return told.Items, err
		}).WithContext(ctx).Should(ContainElement(And(HaveField("Reason", events.EvaluationFailed.Reason), HaveField("Regarding.Name", "aliases"))))
	})

	It("is counted by quotas", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyQuota(ctx, framework.NewScopedQuota(namespace, "none", placementv1.QuotaSpec{Hard: framework.Hard("configmaps", "0")}))
		_, err := put(ctx, "POST", namespace, "", "application/json", fmt.Sprintf(
			`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large", "annotations": {"text": %q}}, "data": {"text": %q}}`,
			escaped[:250_000], escaped))
		Expect(err).To(framework.BeForbidden("exceeded quota: none"))
	})
})
