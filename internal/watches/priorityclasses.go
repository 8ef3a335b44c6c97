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

package watches

import (
	"context"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PriorityClasses reads the names of priority classes. It is safe for concurrent use.
type PriorityClasses struct {
	// Reader reads metadata from a cache.
	Reader client.Reader
}

// Names returns the names of all priority classes.
func (p *PriorityClasses) Names(ctx context.Context) ([]string, error) {
	return namesOf(ctx, p.Reader, schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"))
}

// NewPriorityClass returns an empty priority class in the form that the cache holds, which is metadata only.
func NewPriorityClass() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"))
	return out
}
