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

package remoteengine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/framework"
)

// load are clients that create ConfigMaps in a namespace, one after the other, until they are stopped.
type load struct {
	admitted, refused atomic.Int64

	end  context.CancelFunc
	done sync.WaitGroup
}

// startLoad starts clients. The spec's end stops them.
func startLoad(ctx context.Context, namespace string, clients int) *load {
	GinkgoHelper()
	run, cancel := context.WithCancel(ctx)
	l := &load{end: cancel}
	DeferCleanup(l.stop)
	for c := range clients {
		l.done.Go(func() {
			for n := 0; run.Err() == nil; n++ {
				if err := create(run, namespace, fmt.Sprintf("load-%d-%d", c, n)); err == nil {
					l.admitted.Add(1)
				} else if run.Err() == nil {
					l.refused.Add(1)
				}
			}
		})
	}
	return l
}

// awaitAdmitted waits until more objects were admitted.
func (l *load) awaitAdmitted(ctx context.Context, more int64) {
	GinkgoHelper()
	begin := l.admitted.Load()
	Eventually(func() int64 { return l.admitted.Load() - begin }).WithContext(ctx).Should(BeNumerically(">=", more))
}

// stop waits for the clients' end. It may be called twice.
func (l *load) stop() {
	l.end()
	l.done.Wait()
}

// expectAllDecided looks at every ConfigMap of a namespace, and returns how many there are.
func expectAllDecided(ctx context.Context, namespace, key string, want OmegaMatcher) int {
	GinkgoHelper()
	all, err := objects(ctx, namespace)
	Expect(err).NotTo(HaveOccurred())
	for name, annotations := range all {
		Expect(annotations).To(HaveKeyWithValue(key, want), "%s was admitted undecided", name)
	}
	return len(all)
}

// objects returns the annotations of every ConfigMap of a namespace, by name.
func objects(ctx context.Context, namespace string) (map[string]map[string]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(framework.ConfigMap.GroupVersion().WithKind("ConfigMapList"))
	if err := f.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, obj := range list.Items {
		out[obj.GetName()] = obj.GetAnnotations()
	}
	return out, nil
}
