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

// Package console serves a web application on which a user sees the fleet, and tries changes without making them. It reads with the rights
// of the user, and changes nothing.
//
//	browser ─► Guard: token, cookie, Host, Origin ─► Console ─► fleet, explain, whatif ─► Simulation of one reading of the cluster
//
// The pages are in the folder web of the repository. `make console` builds them into the folder assets, which the binary contains. They
// show what the endpoints below /api/ return as JSON, and decide nothing. All views show one reading of the cluster, until the user reads
// it again, or until it changes while a page follows it.
//
// Users serves several users in place of a Guard, each with the rights of the own token.
package console
