// Package v1alpha1 holds the custom resources of the API group placement.berth.dev: what an administrator writes
// to say where workloads may run, and what Berth reports of it.
//
// +kubebuilder:object:generate=true
// +groupName=placement.berth.dev
package v1alpha1
