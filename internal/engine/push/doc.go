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

// Package push pushes to remote engines the objects and modules that policies need there. A Pusher has a writer for
// each engine, which one goroutine runs, and a store of the objects, which feeds the writers with changes. Only the
// leader has a Pusher. Package remote, on every replica, queries the engines.
//
// An engine is a server with OPA's API that other clients may write to, that may restart empty at any time, and whose
// responses may get lost. A decision must never be made without the data that the policy needs. So writers and
// evaluators follow a protocol, which this page describes.
//
// # Documents
//
// A writer writes the following documents below data, and modules whose IDs begin with policy.ModulePrefix. It changes
// no other document and no other module.
//
//	resources/<group and version>/<plural>  the objects of a type, by namespace and name
//	kubernetes/<plural>                     the same, unless needed types share the plural
//	berth/<name>                            the normal form of quotas (see language.QuotasOf)
//	clusters                                the normal form of the clusters of all inventories
//	berth/ambiguousclusters                 the objects of each name that several objects have; clusters has no such name
//	berth/holdings                          the manifest
//
// # Manifest
//
// The manifest (opaclient.Manifest) lists what is in the engine. If the engine loses its data, it loses the manifest
// too.
//
//	load     the load identifier: a random text
//	types    the types; false means that the type may be incomplete
//	modules  for each policy, the digest of its modules and those of older ones
//	turn     the fencing token, as the only key of an object
//
// While the load identifier is unchanged, nothing that the manifest lists has been missing. Each takeover sets a new
// one, and so does each change after which something is not listed any more. An evaluator reads the manifest before
// and after a decision. The decision counts only if both list what the policy needs, and have the same load
// identifier.
//
// # Fencing token
//
// A transaction is one JSON Patch, which OPA applies as a whole or not at all. Each transaction removes the token of
// the transaction before it and sets its own. The removal fails if the engine has another token. Hence
//
//   - a transaction is applied at most once, however often and however late its request arrives;
//   - transactions are applied in order;
//   - after a takeover, which replaces the token, all transactions of the previous writer fail.
//
// A token is the load identifier and a counter. OPA's policy API has no conditional writes, so polls verify the
// modules.
//
// # Order of writes
//
// Takeover: read the manifest, or create one that lists nothing; take the token; read the list of modules; write a new
// manifest. It lists what the previous one listed, if that is reliable and needed in the same form. Each type is then
// loaded again in any case.
//
// Load of a type: create missing parent documents; write the objects, in portions if there are many. The first portion
// replaces the previous content. From a first portion that is not the last, the type is listed as incomplete. The last
// portion lists it as complete. Changes that happen meanwhile follow afterwards.
//
// Removal of a type: empty its documents and list it as incomplete; then remove its documents and its entry.
//
// Modules of a policy: remove the entry; put and delete modules; write the entry.
//
// An engine that no policy needs: remove types and modules; then remove the manifest.
//
// # States of a writer
//
// A writer is in one of these states:
//
//   - Unknown: the manifest in the engine is reliable, but the writer may not know what is there. It starts so.
//   - Lost: the engine lacks something that its manifest may list, so nothing that the manifest lists is reliable.
//   - Owned: the engine has what this writer wrote. The writer loads types, pushes modules, sends changes, and polls.
//
// In the states Unknown and Lost, a writer takes the engine over, with backoff. Its work ends in one of these events:
//
//   - TakenOver: the engine has the manifest of this writer.
//   - LossFound: a poll or the response to a transaction shows that something is missing, or that another writer has
//     taken the token.
//   - Failed: the engine refuses a request that must succeed. Requests without such a response are sent again until
//     there is one, so they are no event.
//   - Unneeded: no policy needs the engine, and it is empty, or could not be emptied for a minute. The writer ends,
//     unless a policy needs the engine again.
//
// The transitions are:
//
//	state    event      next state
//	Unknown  TakenOver  Owned
//	Unknown  LossFound  Lost
//	Unknown  Failed     Unknown
//	Unknown  Unneeded   Unknown
//	Lost     TakenOver  Owned
//	Lost     LossFound  Lost
//	Lost     Failed     Lost
//	Lost     Unneeded   Lost
//	Owned    LossFound  Lost
//	Owned    Failed     Unknown
//	Owned    Unneeded   Unknown
//
// # Failures
//
// Each line says what happens, what the writer sees, and what follows.
//
//   - A request gets lost. There is no response. It is sent again.
//   - The response to a transaction gets lost. The transaction is sent again and refused, because its own token is
//     there. The writer reads the manifest, finds the token, and goes on.
//   - A request arrives late. The engine has another token and refuses it. No client sees that, and nothing changes.
//   - Another replica becomes the leader. Its writer takes the token over. If the previous writer still runs, its next
//     transaction is refused and the manifest has another token: LossFound.
//   - The engine restarts empty. A poll finds no manifest, or a transaction finds no token: LossFound. The new
//     manifest lists nothing until it is loaded. Evaluators see no manifest, or another load identifier.
//   - Another client removes objects. A transaction finds no parent document, or a poll does not find a sample:
//     LossFound.
//   - Another client changes a module, or a late request does. A poll finds another text: LossFound.
//   - A document that is not a manifest is in the place of the manifest. The takeover replaces it.
//   - Another writer keeps taking the token, or the engine stores nothing. The takeover gives up after some attempts:
//     Failed.
//   - The engine is down or overloaded. Requests are sent again with backoff, as Retry-After says. The changes are
//     collected. If there are too many, the writer stops following their types and loads them again later.
//   - The engine refuses the objects of a type. Failed, and the type is tried again after refusedRetryInterval. The
//     other types are loaded meanwhile.
//   - The engine refuses a module. The policy's modules stay unlisted and are tried again after refusedRetryInterval.
//     There is no event, because nothing that is listed is missing.
package push
