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

package remote

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
)

// failingFor returns a fixture whose server fails for the objects of some namespaces.
func failingFor(t *testing.T, failing ...string) *fixture {
	return newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, namespace := range failing {
			if strings.Contains(string(body), fmt.Sprintf(`"namespace":%q`, namespace)) {
				rejects(500)(w, r)
				return
			}
		}
		says(`{"result": {}}`)(w, r)
	})
}

func asksFor(t *testing.T, p *evaluator, namespace string) engine.Fault {
	t.Helper()
	_, err := p.Evaluate(placement.WithNamespace(t.Context(), namespace), map[string]any{"metadata": map[string]any{"namespace": namespace}})
	return engine.FaultOf(err)
}

// TestCircuitOfANamespace verifies that an engine that fails for the objects of one namespace still gets requests for
// the others.
func TestCircuitOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := failingFor(t, "a")
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
		for range 3 * faultsToOpen {
			asksFor(t, p, "a")
		}
		if got := asksFor(t, p, "a"); got != engine.FaultCircuitOpen {
			t.Errorf("fault %q, want the circuit open for the namespace", got)
		}
		for _, namespace := range []string{"b", ""} {
			if got := asksFor(t, p, namespace); got != "" {
				t.Errorf("fault %q in namespace %q", got, namespace)
			}
		}
		// One request is sent as a trial after a pause.
		pass(firstOpen)
		if got := asksFor(t, p, "a"); got != engine.FaultServer {
			t.Errorf("fault %q, want a trial", got)
		}
		if got := asksFor(t, p, "a"); got != engine.FaultCircuitOpen {
			t.Errorf("fault %q after a trial that failed", got)
		}
	})
}

// TestCircuitOfSeveralNamespaces verifies that an engine that fails for the objects of several namespaces, or is
// unreachable, gets no requests.
func TestCircuitOfSeveralNamespaces(t *testing.T) {
	for name, gone := range map[string]bool{"Failing": false, "Gone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := failingFor(t, "a", "b", "c")
				f.refuse.Store(gone)
				p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
				for i := range 2 * faultsToOpen {
					asksFor(t, p, []string{"a", "b", "c"}[i%3])
				}
				if got := asksFor(t, p, "d"); got != engine.FaultCircuitOpen {
					t.Errorf("fault %q, want the circuit open", got)
				}
			})
		})
	}
}

// TestNamespacesAreBounded verifies that the number of tracked namespaces is limited, and that failing ones are removed
// last.
func TestNamespacesAreBounded(t *testing.T) {
	n := &namespaces{}
	for range faultsToOpen {
		leave, err := n.enter(t.Context(), "e", "attacker")
		if err != nil {
			t.Fatal(err)
		}
		leave(&engine.RemoteError{Fault: engine.FaultServer})
	}
	for i := range 3 * maxNamespaces {
		leave, err := n.enter(t.Context(), "e", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		leave(nil)
	}
	if len(n.known) > maxNamespaces {
		t.Errorf("%d namespaces are remembered", len(n.known))
	}
	if _, err := n.enter(t.Context(), "e", "attacker"); err == nil {
		t.Error("the faults are forgotten")
	}
}
