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
	"net"
	"slices"
	"strconv"
	"testing"
)

func TestFreePorts(t *testing.T) {
	ports, err := FreePorts(20)
	if err != nil || len(ports) != 20 {
		t.Fatalf("ports %v, error %v", ports, err)
	}
	for i, port := range ports {
		if first := firstEphemeralPort(); first > firstPort && (port < firstPort || port >= first) {
			t.Errorf("port %d, want one from %d to %d", port, firstPort, first-1)
		}
		if slices.Contains(ports[:i], port) {
			t.Errorf("port %d is there twice", port)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Errorf("port %d: %v", port, err)
			continue
		}
		listener.Close()
	}
}
