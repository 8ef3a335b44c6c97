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

package delivery_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = DescribeTable("The API server refuses a delivery", func(ctx SpecContext, delivery placementv1.Delivery, path, message string) {
	p := framework.NewPolicy(framework.NewName("deliver"), `package deliver

clusters := set()`, "apps", "deployments", "nowhere")
	p.Spec.Delivery = &delivery
	Expect(f.Client.Create(ctx, p, client.DryRunAll)).To(MatchError(And(ContainSubstring(path), ContainSubstring(message))))
},
	Entry("to no system", placementv1.Delivery{Replicas: &placementv1.ReplicaDivision{DivideBy: placementv1.DivideEvenly}},
		"spec.delivery", "at least one of karmada, kubeFleet, placementDecision and openClusterManagement is required"),
	Entry("that moves in systems which do not report", surging(placementv1.Delivery{PlacementDecision: &placementv1.PlacementDecisionDelivery{}}, time.Minute),
		"spec.delivery.surge", "only Karmada and KubeFleet report where objects run"),
	Entry("that waits for no time", surging(toKarmada, 0), "spec.delivery.surge.timeout", "must be from 1s to 24h"),
	Entry("that waits for days", surging(toKarmada, 25*time.Hour), "spec.delivery.surge.timeout", "must be from 1s to 24h"),
	Entry("that divides replicas in KubeFleet alone", placementv1.Delivery{
		KubeFleet: &placementv1.KubeFleetDelivery{}, Replicas: &placementv1.ReplicaDivision{DivideBy: placementv1.DivideEvenly},
	}, "spec.delivery.replicas", "KubeFleet does not divide replicas"),
	Entry("that divides by free capacity where no system knows it", placementv1.Delivery{
		OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}, Replicas: &placementv1.ReplicaDivision{DivideBy: placementv1.DivideByFreeCapacity},
	}, "spec.delivery.replicas", "Karmada alone divides replicas by free capacity"),
	Entry("with a minimum above the maximum", placementv1.Delivery{
		Karmada: toKarmada.Karmada, Replicas: &placementv1.ReplicaDivision{DivideBy: placementv1.DivideEvenly, MinPerCluster: new(int32(3)), MaxPerCluster: new(int32(2))},
	}, "spec.delivery.replicas.minPerCluster", "must not be greater than maxPerCluster"),
	Entry("with bounds where the system divides", placementv1.Delivery{
		Karmada: toKarmada.Karmada, Replicas: &placementv1.ReplicaDivision{DivideBy: placementv1.DivideByFreeCapacity, MinPerCluster: new(int32(3))},
	}, "spec.delivery.replicas.divideBy", "minPerCluster and maxPerCluster have no effect"),
)
