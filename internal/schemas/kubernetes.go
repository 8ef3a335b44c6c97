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

package schemas

import (
	"reflect"
	"sync"

	"github.com/open-policy-agent/opa/v1/types"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/internal/typecheck"
)

// kubernetes has the types that typeOfKubernetes has returned for kinds of Kubernetes itself, by group, version, and kind.
var kubernetes sync.Map

// typeOfKubernetes returns the type of a kind of Kubernetes itself, by the Go type that Berth is built with; nil for another kind.
func typeOfKubernetes(kind schema.GroupVersionKind) types.Type {
	if known, ok := kubernetes.Load(kind); ok {
		return known.(types.Type)
	}
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil
	}
	out := typecheck.TypeOf(reflect.TypeOf(object))
	kubernetes.Store(kind, out)
	return out
}
