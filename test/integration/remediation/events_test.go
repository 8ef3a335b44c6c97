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

package remediation_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/events"
)

var _ = Describe("An Event that sums up Events on objects", func() {
	It("is written by the operator's rights, in the namespace of the objects", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		operator, err := kubernetes.NewForConfig(f.Operator)
		Expect(err).NotTo(HaveOccurred())
		broadcaster := clientevents.NewBroadcaster(&clientevents.EventSinkImpl{Interface: operator.EventsV1()})
		DeferCleanup(broadcaster.Shutdown)
		Expect(broadcaster.StartRecordingToSinkWithContext(ctx)).To(Succeed())
		recorder := events.New(broadcaster.NewRecorder(runtime.NewScheme(), events.Controller))
		for _, n := range []int{20, 30} {
			of := events.Alike{Kind: events.Remediated, Namespace: namespace, Policies: "PlacementPolicy \"p\""}
			recorder.OnSum(ctx, f.Client, events.Sum{Alike: of, Events: n})
			message := fmt.Sprintf("PlacementPolicy \"p\": %d more objects were patched", n)
			Eventually(func(ctx context.Context) ([]eventsv1.Event, error) {
				list := &eventsv1.EventList{}
				err := f.Client.List(ctx, list, client.InNamespace(namespace))
				return list.Items, err
			}).WithContext(ctx).Should(ContainElement(And(
				HaveField("Note", message), HaveField("Reason", "PlacementRemediated"), HaveField("Regarding.Kind", "Namespace"),
				HaveField("Regarding.Name", namespace))))
		}
	})
})
