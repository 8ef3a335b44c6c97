/*
Copyright 2026 The Berth Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package remote evaluates policies with remote engines: servers with OPA's data API, or one of the same form, that are
// reached over HTTP. It also pushes data and modules to these engines for policies that need them there. An Engine
// returns evaluators, and a Pusher pushes.
//
// Requests and responses cross a network, so the size of each response is limited. Anything but a readable response is
// an *engine.RemoteError, never a decision.
package remote
