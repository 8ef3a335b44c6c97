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

package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestOwnCertificate checks that the certificate that the console signs has the names of its Service.
func TestOwnCertificate(t *testing.T) {
	o := &consoleOptions{listen: ":8443", simulationFlags: simulationFlags{berthNamespace: "berth-system"}}
	find, err := o.certificates()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := find(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"berth-console", "berth-console.berth-system.svc", "berth-console.berth-system.svc.cluster.local"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

// TestMemoryOfConsole checks that a shared console collects garbage before it reaches the limit of its container.
func TestMemoryOfConsole(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	t.Setenv("GOMEMLIMIT", "")
	if err := os.Unsetenv("GOMEMLIMIT"); err != nil {
		t.Fatal(err)
	}
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	o := &consoleOptions{simulationFlags: simulationFlags{IOStreams: streams}}
	o.limitMemory(memlimit.Limit(1000 << 20))
	if got := debug.SetMemoryLimit(-1); got != 900<<20 || errOut.Len() > 0 {
		t.Errorf("the limit is %d; %s", got, errOut)
	}
}
