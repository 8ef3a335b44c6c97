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
