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
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework/faultproxy"
	"github.com/berth-dev/berth/test/framework/opaserver"
)

// asking returns the number of the manager's goroutines that run code of the remote engines' client.
func asking() int {
	GinkgoHelper()
	var out bytes.Buffer
	Expect(pprof.Lookup("goroutine").WriteTo(&out, 2)).To(Succeed())
	n := 0
	for stack := range strings.SplitSeq(out.String(), "\n\n") {
		if strings.Contains(stack, "/internal/engine/remote.") || strings.Contains(stack, "/internal/engine/push.") {
			n++
		}
	}
	return n
}

var _ = Describe("An hour of faults in a minute", func() {
	It("lets nothing pass undecided, and leaves neither goroutine nor connection", func(ctx SpecContext) {
		const engines, clients, objects = 6, 3, 12
		before := asking()
		fleet := newFleet(ctx, "eu-1")
		server := startOPA(zone("a"))
		// One that asks to be left alone for an hour is, for a minute: longer than is waited for here.
		faults := slices.DeleteFunc(faultproxy.All(oversize), func(f faultproxy.Fault) bool {
			return f.Name == faultproxy.RetryIn(http.StatusServiceUnavailable, 0).Name
		})
		seed := uint64(GinkgoRandomSeed())
		type engine struct {
			*faultproxy.Proxy
			policy, namespace, key string
			want                   OmegaMatcher
		}
		var all []*engine
		for i := range engines {
			e := &engine{namespace: f.NewNamespace(ctx, nil), key: zoneKey, want: Equal("a")}
			var p *placementv1.PlacementPolicy
			if i < engines-2 {
				e.Proxy = startProxy(server)
				p = elsewhere(e.namespace, e.URL()+document)
			} else {
				// Two are supplied by Berth, and lose it all.
				supplied := opaserver.Start(GinkgoTB(), opaserver.Options{})
				e.Proxy, e.key, e.want = startProxy(supplied), clustersKey, Equal("eu-1")
				p = elsewhere(e.namespace, e.URL()+document, withProfiles, withModule("all", listed(fleet)))
			}
			p.Spec.Remote.Undefined = placementv1.UndefinedError
			f.CreatePolicy(ctx, p)
			e.policy = p.Name
			all = append(all, e)
		}
		for _, e := range all {
			createSoon(ctx, e.namespace, "before")
		}

		for i, e := range all {
			e.Choose(faultproxy.Mixed(seed+uint64(i), 0.6, faults...))
		}
		var admitted, refused atomic.Int64
		var done sync.WaitGroup
		for _, e := range all {
			for c := range clients {
				done.Go(func() {
					for n := range objects {
						if create(ctx, e.namespace, fmt.Sprintf("storm-%d-%d", c, n)) == nil {
							admitted.Add(1)
						} else {
							refused.Add(1)
						}
					}
				})
			}
		}
		done.Wait()
		met := map[string]int64{}
		for _, e := range all {
			for name, n := range e.Met() {
				met[name] += n
			}
		}
		GinkgoWriter.Printf("admitted %d, refused %d; faults %v\n", admitted.Load(), refused.Load(), met)
		Expect(refused.Load()).To(BeNumerically(">", 0))

		By("ending the faults")
		for _, e := range all {
			e.Set(faultproxy.Fault{})
		}
		for _, e := range all {
			createSoon(ctx, e.namespace, "after")
			expectAllDecided(ctx, e.namespace, e.key, e.want)
			expectAnswering(ctx, e.policy)
		}

		By("deleting the policies")
		for _, e := range all {
			f.DeletePolicy(ctx, e.policy)
		}
		for i, e := range all {
			Eventually(func() int {
				// Connections go with what holds them.
				runtime.GC()
				return e.Open()
			}).Should(BeZero(), "connections to engine %d", i)
		}
		Eventually(asking).Should(BeNumerically("<=", before))
	})
})
