// Package migration turns the ConfigMaps from which kube-mgmt feeds an OPA into PlacementPolicies that decide the same.
//
// It is pure: ConfigMaps in; policies, and a finding for each module and document, out. What it can't carry over without
// changing what it means it leaves out and says why; whatever it puts together from several modules it holds against
// them, as OPA's own compiler resolves them, before it hands it out.
package migration
