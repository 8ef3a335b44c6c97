package setup

import "sigs.k8s.io/controller-runtime/pkg/config"

// controllerOptions are what all controllers of a manager have in common.
//
// Their queues are client-go's. The priority queue that controller-runtime takes by default stops for ever now and then
// when a manager ends: it may be about to hand an item to a worker that has just gone away, and holds its lock meanwhile
// (kubernetes-sigs/controller-runtime#3538, in every release of 0.24). The manager would then give up after its time for
// a graceful end, and release its lease that much later.
func controllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}
}
