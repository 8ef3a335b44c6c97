// Package typecheck finds expressions in a policy that can never have a value, or never the value that their author
// intended, given the schemas of the objects that the policy reads. It does no I/O: callers pass the schemas.
//
// Check compiles the policy once more, for OPA's type checker only, together with generated modules that give each
// document its type. The module in force is compiled without them, so a schema never changes a decision.
package typecheck
