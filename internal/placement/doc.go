// Package placement computes the placement of an object from the decisions of all policies that match it. The webhook,
// remediation, and the command line all use Decider.Decide: match, restore the requested state, evaluate every matching
// policy, merge the decisions, and record the overwritten values. The package has no API client and no clock.
package placement
