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

package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
)

// firstPort is the lowest port that FreePorts returns; well-known services are below it.
const firstPort = 10000

// FreePorts returns n different ports on the loopback address that were free a moment ago, and that no outgoing
// connection is given: they are below those that the machine takes for them, unless that leaves none. Another process
// may still take one before it is used.
func FreePorts(n int) ([]int, error) {
	limit := firstEphemeralPort()
	if limit <= firstPort {
		limit = 1 << 16
	}
	var ports []int
	var last error
	for range 100 + n {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(limit-firstPort)
		if slices.Contains(ports, port) {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			err = listener.Close()
		}
		if last = err; err == nil {
			ports = append(ports, port)
		}
	}
	return nil, fmt.Errorf("finding %d free ports: %w", n, last)
}

// firstEphemeralPort is the lowest port that the machine gives to outgoing connections.
func firstEphemeralPort() int {
	first := 32768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		// What can't be read leaves the usual one.
		_, _ = fmt.Sscan(string(text), &first)
	}
	return first
}
