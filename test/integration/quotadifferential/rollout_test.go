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

package quotadifferential_test

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/framework"
)

// The suite is the one that has both Berth and Kubernetes' own deployment controller.
var _ = Describe("A Deployment whose ReplicaSets match a policy on scheduling", func() {
	It("rolls out and back, with one ReplicaSet for each template", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("place"),
			framework.Rego(`scheduling.nodeSelector.disk := "ssd"`), "apps", "replicasets", namespace))
		deployment := framework.NewObject(framework.Deployment, namespace, "web", nil)
		Expect(f.Client.Create(ctx, deployment)).To(Succeed())
		patch := func(format string, args ...any) {
			GinkgoHelper()
			Expect(f.Client.Patch(ctx, deployment, client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil, format, args...)))).To(Succeed())
		}
		// replicas of each ReplicaSet, by its template's node selector, or what is wrong.
		replicas := func(ctx context.Context) (map[string]int32, error) {
			sets := &appsv1.ReplicaSetList{}
			if err := f.Client.List(ctx, sets, client.InNamespace(namespace)); err != nil {
				return nil, err
			}
			out := map[string]int32{}
			for _, set := range sets.Items {
				key, err := json.Marshal(set.Spec.Template.Spec.NodeSelector)
				if _, twice := out[string(key)]; twice || err != nil {
					return nil, fmt.Errorf("two ReplicaSets have the node selector %s (%w)", key, err)
				}
				out[string(key)] = *set.Spec.Replicas
			}
			return out, nil
		}
		disk := func(value string) {
			patch(`{"spec": {"template": {"spec": {"nodeSelector": {"disk": %q}}}}}`, value)
		}
		// No pod ever runs here. A rollout that waits for pods may stand still for good when replicas are added meanwhile.
		patch(`{"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": "100%%"}}}}`)
		Eventually(replicas).WithContext(ctx).Should(Equal(map[string]int32{"null": 0}))
		disk("hdd")
		Eventually(replicas).WithContext(ctx).Should(Equal(map[string]int32{"null": 0, `{"disk":"hdd"}`: 0}))
		patch(`{"spec": {"replicas": 1}}`)
		Eventually(replicas).WithContext(ctx).Should(Equal(map[string]int32{"null": 0, `{"disk":"hdd"}`: 1}))
		disk("nvme")
		Eventually(replicas).WithContext(ctx).Should(HaveKeyWithValue(`{"disk":"nvme"}`, int32(1)))
		disk("hdd")
		patch(`{"spec": {"replicas": 2}}`)
		Eventually(replicas).WithContext(ctx).Should(HaveKeyWithValue(`{"disk":"hdd"}`, int32(2)))
		Consistently(replicas).WithContext(ctx).Should(HaveLen(3))
	})
})
