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

package delivery

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/placement"
)

// Controller identifies an object from which a Kubernetes controller made another one, such as the ReplicaSet of a Pod.
type Controller struct {
	Key
	// Version is the API version in which the made object names the controller, without the group, such as "v1".
	Version string
	// UID is the UID of the controller according to the made object; "" if that does not name it.
	UID types.UID
}

// Is reports whether an object with the controller's kind, namespace, and name is the controller: it has its UID, too, or the UID is not
// known.
func (c Controller) Is(o *unstructured.Unstructured) bool { return c.UID == "" || c.UID == o.GetUID() }

// ControllersOf returns the objects from which an object was made, according to its owner references and labels: the one that controls it
// and, for a Pod of a ReplicaSet of a Deployment, also the Deployment.
func ControllersOf(o *unstructured.Unstructured) []Controller {
	reference := metav1.GetControllerOfNoCopy(o)
	if reference == nil {
		return nil
	}
	kind := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	out := []Controller{{Key{kind.GroupKind(), o.GetNamespace(), reference.Name}, kind.Version, reference.UID}}
	replicaSet := schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}
	hash := o.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
	if name, ok := strings.CutSuffix(reference.Name, "-"+hash); ok && hash != "" && o.GetKind() == "Pod" && kind.GroupKind() == replicaSet {
		out = append(out, Controller{Key: Key{schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}, o.GetNamespace(), name},
			Version: "v1"})
	}
	return out
}

// WithoutDeliverersOf returns those of policies, which match an object, that do not also deliver the controller of the object. A policy
// delivers the controller if one of its name is among controller, the policies that match the controller, and it delivers objects of kind,
// the kind of the controller. Where a system brings the controller, the controller makes the object again, so the object is not delivered
// itself.
func WithoutDeliverersOf(kind schema.GroupKind, controller, policies []*placement.Policy) []*placement.Policy {
	return slices.DeleteFunc(slices.Clone(policies), func(p *placement.Policy) bool {
		return len(SystemsOf(p, kind)) > 0 && slices.ContainsFunc(controller, func(other *placement.Policy) bool { return other.Name == p.Name })
	})
}
