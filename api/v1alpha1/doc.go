// Package v1alpha1 provides the custom resources of the API group placement.berth.dev: policies that decide where
// workloads may run, quotas, and the status that Berth reports for them.
//
// +kubebuilder:object:generate=true
// +groupName=placement.berth.dev
package v1alpha1
