// Package typecheck finds expressions in a policy's text that can never have a value, or never the value that their author
// means, given the schemas of the objects that the policy reads. It is pure: schemas are handed in.
//
// It compiles the text once more, for OPA's type checker alone, beside generated modules that give each document its type.
// What is in force is compiled without them, so a schema never changes a decision.
package typecheck
