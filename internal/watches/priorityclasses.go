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
