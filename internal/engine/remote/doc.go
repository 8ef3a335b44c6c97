// Package remote asks policy engines over HTTP: OPA's data API, or what another engine has in its form. It also keeps
// data and modules in such an engine, for policies that want it.
//
// What an engine is asked of, and what it says, crosses a network: each answer is bounded, and anything but a readable
// answer is an *engine.RemoteError, never a decision.
package remote
