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

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// TestControllersEndWhileTheirQueuesFill checks that controllers stop while items are added to their queues. With the
// priority queue of controller-runtime 0.24, 74 of 2,000 controllers did not.
func TestControllersEndWhileTheirQueuesFill(t *testing.T) {
	const controllers = 400
	ended := make(chan error, controllers)
	for i := range controllers {
		common := controllerOptions()
		var done atomic.Int64
		ctx, end := context.WithCancel(t.Context())
		c, err := controller.NewTypedUnmanaged(strconv.Itoa(i), controller.TypedOptions[reconcile.Request]{
			SkipNameValidation: common.SkipNameValidation, UsePriorityQueue: common.UsePriorityQueue, MaxConcurrentReconciles: 4,
			Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				if done.Add(1) > int64(i%50) {
					end()
				}
				return reconcile.Result{}, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Watch(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			go func() {
				for n := 0; ctx.Err() == nil; n++ {
					queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: strconv.Itoa(n % 50)}})
					runtime.Gosched()
				}
			}()
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- c.Start(ctx) }()
		if i%4 == 3 {
			for range 4 {
				select {
				case err := <-ended:
					if err != nil {
						t.Fatal(err)
					}
				case <-time.After(time.Minute):
					t.Fatalf("A controller has not ended a minute after it was told to; %d ended before", i-3)
				}
			}
		}
	}
}
