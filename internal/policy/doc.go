// Package policy compiles placement policies and determines which cluster data they read.
//
// Compile returns a Module, the compiled and analysed policy. Bind resolves the resource types that a Module reads to
// types that the API server serves. The package does no I/O: the interface Served describes the API server.
package policy
