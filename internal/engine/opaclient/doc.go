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

// Package opaclient is the client of OPA's HTTP API that Berth uses to query remote engines and to push to them. A Pool
// provides a Client for each engine and set of credentials. Any server with an API of the same form may answer.
//
// Requests and responses cross a network, so the size of each response is limited. Anything but a readable response is
// an *engine.RemoteError, whose message repeats nothing of the response but the codes of OPA's documented errors: people
// who can't reach a server may read it.
//
// The package also has what both sides need to know of the documents in an engine: the form of queries and results, and
// the Manifest, which lists what was pushed.
package opaclient
