package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "placement.berth.dev", Version: "v1alpha1"}

	// SchemeBuilder collects the kinds of this package for a runtime.Scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds of this package with a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&PlacementPolicy{}, &PlacementPolicyList{},
		&ScopedQuota{}, &ScopedQuotaList{},
		&ClusterScopedQuota{}, &ClusterScopedQuotaList{},
		&LimitedResource{}, &LimitedResourceList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
