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

// Package quotacharge decides requests against quotas and stores their charges, so that no quota is over-admitted although
// several replicas charge it at the same time. Package quota decides; this package reads, orders, and writes.
//
// # Batches
//
// The usage of a quota is one number in its status. If each request wrote it, requests would conflict with each other. So the
// requests of a namespace wait in one queue. One goroutine for each queue takes up to maxBatch requests, decides them
// one after the other, and stores the result with one write for each quota. While it writes, the next batch collects
// requests. Namespaces that share ClusterScopedQuotas share a queue: its key is the set of their UIDs. The queue only
// avoids conflicts. If two queues have a quota in common, or the cache does not know yet that they have, compare-and-swap
// keeps the quota right.
//
// # Rounds
//
// A batch is decided in rounds. A round reads each quota once into a working copy, a quota.Account. Each request is
// decided against the copies, with the charges of the requests before it. Then the round writes every copy that changed
// as an update of the version that it read. If one write conflicts, the batch begins another round: all of
// its requests are decided again against all of their quotas, because a decision holds only for the state that it read.
// A round first reverts the charges that earlier rounds of the batch stored. Requests that arrived meanwhile join the
// batch. Rounds have a short random pause between them, and end at batchTimeout. The client is then told to try again.
//
// # Cached and live
//
// The first round reads from the cache, and prefers versions of quotas that this process wrote and the cache lacks. A
// stale cache can only cause a conflict, a denial, or a missed quota. Before a round denies a request, it gets the
// quotas that the cache knows from the API server (reread). If the request has no quota or limit at all, or lacks a quota
// that covers it, the round lists everything from the API server (relisted). All rounds after a conflict are live.
//
// # Release
//
// A charge is a reservation under a random ID that only this process knows. If the request fails after its charge was
// stored, or its client is gone, nothing would settle the reservation. Its release then waits in the same queue, as an
// entry without a request, and reverts the charge in the next round. If the process ends before, the reservation expires.
//
// # Dry run
//
// A dry run is decided like any other request and never charged.
package quotacharge
