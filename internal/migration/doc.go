// Package migration converts the ConfigMaps that kube-mgmt loads into OPA to PlacementPolicies with the same decisions.
//
// Convert takes ConfigMaps and returns policies, and a finding for each module and document. The package does no I/O.
// It omits modules and documents that it can't convert without changing their meaning, and reports why. If it joins
// several modules, it verifies with OPA's compiler that the resolved rules are unchanged.
package migration
