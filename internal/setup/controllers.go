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

package setup

import "sigs.k8s.io/controller-runtime/pkg/config"

// controllerOptions returns the options of all controllers of a manager.
//
// Their queues are client-go's workqueues. controller-runtime's default, the priority queue, sometimes blocks forever
// when a manager stops: it may try to hand an item to a worker that has just stopped, and holds its lock meanwhile
// (kubernetes-sigs/controller-runtime#3538, in every release of 0.24). The manager would then give up only after its
// graceful shutdown timeout, and release its lease that much later.
func controllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}
}
