// Package policy compiles the text of a placement policy and finds out which cluster data it reads. It is pure: what
// the API server serves is asked of an interface.
package policy
