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
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RivalManager is the field manager of a Rival.
const RivalManager = "rival-controller"

// Rival is a client that writes annotations which policies decide otherwise. A webhook of its own, which the API server calls after
// Berth's, has the last word on its requests, and on no others.
type Rival struct {
	client      client.Client
	namespace   string
	annotations map[string]string
}

// StartRival starts a rival that sets annotations of ConfigMaps in a namespace. It ends with the spec.
func (f *Framework) StartRival(ctx context.Context, namespace string, annotations map[string]string) *Rival {
	GinkgoHelper()
	user := NewName("rival")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var patch []map[string]string
		for _, key := range slices.Sorted(maps.Keys(annotations)) {
			patch = append(patch, map[string]string{"op": "add", "path": "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1"),
				"value": annotations[key]})
		}
		text, err := json.Marshal(patch)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: text,
			PatchType: new(admissionv1.PatchTypeJSONPatch)}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	DeferCleanup(server.Close)
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		// The API server calls webhooks in the order of their configurations' names.
		ObjectMeta: metav1.ObjectMeta{Name: "zz-" + user},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "rival.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "rival",
				Expression: fmt.Sprintf("request.userInfo.username == %q", user)}},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	Expect(f.Client.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(f.Client.Delete(ctx, configuration)).To(Succeed()) })
	config := rest.CopyConfig(f.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: f.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return &Rival{c, namespace, annotations}
}

// Write sets the annotations of an object, and returns what the API server stored for them.
func (r *Rival) Write(ctx context.Context, gvk schema.GroupVersionKind, name string) (map[string]string, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": r.annotations}})
	if err != nil {
		return nil, err
	}
	obj := NewObject(gvk, r.namespace, name, nil)
	if err := r.client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body), client.FieldOwner(RivalManager)); err != nil {
		return nil, err
	}
	return r.fought(obj), nil
}

// Fight writes the annotations of an object each time that they have been changed, and returns when that has happened a number of
// times.
func (r *Rival) Fight(ctx context.Context, f *Framework, gvk schema.GroupVersionKind, name string, rounds int) {
	GinkgoHelper()
	read := func(ctx context.Context) (map[string]string, error) {
		obj, err := f.Get(ctx, gvk, r.namespace, name)
		if err != nil {
			return nil, err
		}
		return r.fought(obj), nil
	}
	for range rounds {
		Eventually(read).WithContext(ctx).Should(And(HaveLen(len(r.annotations)), Not(Equal(r.annotations))), "Berth patches %s", name)
		// The API server learns of the rival's webhook with a delay. Its response counts: what is read afterwards may be Berth's next
		// patch already, and another write would be another round.
		Eventually(r.Write).WithContext(ctx).WithArguments(gvk, name).Should(Equal(r.annotations), "the rival writes %s", name)
	}
}

// fought returns those annotations of an object that the rival writes.
func (r *Rival) fought(obj client.Object) map[string]string {
	out := maps.Clone(obj.GetAnnotations())
	maps.DeleteFunc(out, func(key, _ string) bool { _, ours := r.annotations[key]; return !ours })
	return out
}
