// Package remote evaluates policies with remote engines: servers with OPA's data API, or one of the same form, that are
// reached over HTTP. It also pushes data and modules to these engines for policies that need them there. An Engine
// returns evaluators, and a Pusher pushes.
//
// Requests and responses cross a network, so the size of each response is limited. Anything but a readable response is
// an *engine.RemoteError, never a decision.
package remote
