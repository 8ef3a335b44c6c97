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

package hostile_test

import (
	"crypto/tls"
	"net"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("Thousands of connections without an end of their requests", func() {
	// They hold what a replica gives to a client before it knows it: a TLS session, and a header as large as it may be.
	const connections = 2000
	half := "POST /x HTTP/1.1\r\nHost: a\r\nLarge: " + strings.Repeat("a", 7<<10)

	It("take at most 32 MiB of a replica, which goes on deciding", func(ctx SpecContext) {
		stopOperator()
		replica := f.NewCommands(ctx).StartReady(ctx, "")
		inUse := func() float64 {
			GinkgoHelper()
			_, err := replica.HeapProfile(ctx)
			Expect(err).NotTo(HaveOccurred())
			heap, err := replica.Value(ctx, "go_memstats_heap_alloc_bytes")
			Expect(err).NotTo(HaveOccurred())
			stacks, err := replica.Value(ctx, "go_memstats_stack_inuse_bytes")
			Expect(err).NotTo(HaveOccurred())
			return heap + stacks
		}
		// held is what the replica has in use, without garbage: it is read after a collection. What is under way meanwhile leaves some
		// garbage before it is read, so the least of three readings counts.
		held := func() float64 {
			GinkgoHelper()
			return min(inUse(), inUse(), inUse())
		}
		f.AwaitValidation(ctx)
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), framework.Rego(`errors contains "not here"`), "", "configmaps", namespace))
		before := held()
		ports := replica.Ports()
		for i := range connections {
			port := ports[i%len(ports)]
			conn, err := net.Dial("tcp", port.Address)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(conn.Close)
			if port.Secure {
				//nolint:gosec // An attacker verifies no certificates.
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			// What the replica closed meanwhile takes no memory.
			_, _ = conn.Write([]byte(half))
		}
		taken := held() - before
		AddReportEntry("bytes", taken)
		Expect(taken).To(BeNumerically("<", 32<<20))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "a", nil))).To(MatchError(ContainSubstring("not here")))
		Expect(replica.Ready(ctx)).To(Succeed())
		Expect(replica.Value(ctx, "process_open_fds")).To(BeNumerically("<", 700))
	})
})
