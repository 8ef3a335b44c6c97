// Package placement turns what policies decide of an object into the object as it should be. It is the one decision
// path of the webhook, of remediation and of the command line: match, restore the developer's intent, ask every
// matching policy, merge, and record what was overwritten. It has no client and no clock.
package placement
