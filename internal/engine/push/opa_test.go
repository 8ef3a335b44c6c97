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

package push

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/framework/opaserver"
)

// at returns the needs of a policy with the address of the server as its engine.
func at(t testing.TB, server *opaserver.Server, w PolicyNeeds) PolicyNeeds {
	t.Helper()
	base, err := url.Parse(server.URL() + "/")
	if err != nil {
		t.Fatal(err)
	}
	r := *w.Remote
	r.Base, r.Document = base, base.JoinPath("v1/data/p")
	w.Remote = &r
	return w
}

// plain converts a document to the form in which the engine's documents are decoded, with numbers as json.Number.
func plain(t testing.TB, document any) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(toJSON(document)))
	decoder.UseNumber()
	var out map[string]any
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually waits until check returns no error.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// TestPusherRealOPA verifies that a real server accepts the pushed data and modules, and that nothing else in it
// changes.
func TestPusherRealOPA(t *testing.T) {
	opa := opaserver.Start(t, opaserver.Options{})
	k := keep(t, nil)
	a := at(t, opa, needsWith("a", allTypes, `package lib.a

import rego.v1

allowed := data.lib.b.twice(2)`, `package lib.b

import rego.v1

twice(x) := x * 2`))
	b := at(t, opa, needsWith("b", allTypes[:2]))
	has := func(all ...PolicyNeeds) func() error {
		return func() error {
			document, _ := opa.GetData("")
			got, _ := document.(map[string]any)
			var h *opaclient.Manifest
			if berth, ok := got["berth"].(map[string]any); ok {
				h, _ = opaclient.ParseManifest(toJSON(map[string]any{"result": berth["holdings"]}))
			}
			for _, w := range all {
				if missing, _ := h.Missing(&policy.Binding{Remote: w.Remote, PushedTypes: w.Types}); missing != "" {
					return fmt.Errorf("the engine %s: %w; %s", missing, k.pusher.Failure(w.Policy), toJSON(document))
				}
			}
			delete(got, "lib")
			delete(got, "good")
			if want, got := sorted(plain(t, k.wantedDocument(all...))), sorted(tidy(got)); want != got {
				return fmt.Errorf("the engine has %s, want %s", got, want)
			}
			return nil
		}
	}
	k.setNeeds(a, b)
	for _, r := range allTypes {
		namespace := ""
		if r.Namespaced {
			namespace = "ns"
		}
		k.replace(r, thing(namespace, "first", "1"), thing(namespace, "second", "1"))
	}
	eventually(t, has(a, b))
	if got, _ := opa.GetData("lib/a/allowed"); fmt.Sprint(got) != "4" {
		t.Errorf("the modules say %v", got)
	}

	// These names contain characters with a meaning in JSON Pointers, in URLs, or in both.
	for _, name := range []string{"a/b", "a~b", "a~1b", "a%2Fb", "a%b", "system:x", "a b", "ü", "0", "-"} {
		k.put(ofNodes, thing("", name, "1"))
		k.put(ofManaged, thing("", name, "1"))
	}
	k.put(ofPods, thing("other", "p", "1"))
	eventually(t, has(a, b))
	for _, name := range []string{"a/b", "a%2Fb", "a~1b"} {
		k.delete(ofNodes, objectKey{"", name})
		k.delete(ofManaged, objectKey{"", name})
	}
	k.delete(ofPods, objectKey{"other", "p"})
	eventually(t, has(a, b))

	for _, lose := range []func(){opa.Restart, func() { opa.DeletePolicy("placement.berth.dev/a/m0") }, func() { opa.DeleteData("berth") }} {
		lose()
		k.put(ofNodes, thing("", "n", fmt.Sprint(time.Now().UnixNano())))
		eventually(t, has(a, b))
	}
	if got := len(opa.Policies()); got != 2 {
		t.Errorf("%d modules", got)
	}

	// The codes of the server's errors tell what is wrong.
	bad := at(t, opa, needsWith("bad", nil, "good: package good", `wrong: package wrong

x := nothing(1)`))
	k.setNeeds(a, bad)
	eventually(t, func() error {
		if err := k.pusher.Failure("bad"); err == nil || !strings.Contains(err.Error(), "module wrong") || !strings.Contains(err.Error(), "rego_type_error") {
			return fmt.Errorf("failure: %w", err)
		}
		return nil
	})
	eventually(t, has(a))
	k.setNeeds()
	eventually(t, has())
	// Modules are removed after the objects.
	eventually(t, func() error {
		if got := opa.Policies(); len(got) != 0 {
			return fmt.Errorf("modules are left: %v", got)
		}
		return nil
	})
}

// TestPusherRealOPALosesObjects verifies that objects which another client overwrites are pushed again, even if the
// manifest is still there and nothing changes.
func TestPusherRealOPALosesObjects(t *testing.T) {
	opa := opaserver.Start(t, opaserver.Options{})
	k := keep(t, nil)
	a := at(t, opa, needsWith("a", []policy.Resource{ofPods, ofQuotas, ofManaged}))
	odd := []string{"a/b", "a~b", "a~1b", "a%2Fb", "a%b", "system:x", "a b", "ü", "-"}
	var clusters []*unstructured.Unstructured
	for _, name := range append([]string{"007"}, odd...) {
		clusters = append(clusters, thing("", name, "1"))
	}
	k.setNeeds(a)
	k.replace(ofPods, thing("007", "p", "1"), thing("ns", "007", "1"))
	k.replace(ofQuotas, thing("ns", "q", "1"))
	k.replace(ofManaged, clusters...)
	load := ""
	loaded := func() error {
		document, _ := opa.GetData("berth/holdings")
		h, _ := opaclient.ParseManifest(toJSON(map[string]any{"result": document}))
		if missing, _ := h.Missing(&policy.Binding{Remote: a.Remote, PushedTypes: a.Types}); missing != "" {
			return fmt.Errorf("the engine %s: %w", missing, k.pusher.Failure("a"))
		}
		if h.LoadID == load {
			return errors.New("the engine is not loaded anew")
		}
		document, _ = opa.GetData("")
		got, _ := document.(map[string]any)
		if want, got := sorted(plain(t, k.wantedDocument(a))), sorted(tidy(got)); want != got {
			return fmt.Errorf("the engine has %s, want %s", got, want)
		}
		load = h.LoadID
		return nil
	}
	eventually(t, loaded)

	there := func(name string) bool {
		at := opaclient.APIURL(a.Remote.Base, "data", "resources", ofManaged.GroupVersion().String(), "managedclusters", name)
		_, ok := opa.GetData(strings.TrimPrefix(at.EscapedPath(), "/v1/data/"))
		return ok
	}
	for _, name := range odd {
		if !there(name) || numeric(name) {
			t.Errorf("%q can't be asked for", name)
		}
	}
	if there("007") || !numeric("007") {
		t.Error("names that are numbers can be asked for, and need not be left out")
	}
	for _, lose := range []func(){
		func() { opa.DeleteData("kubernetes") },
		func() { opa.DeleteData("clusters") },
		func() { opa.PutData("berth/quotas", map[string]any{}) },
	} {
		lose()
		eventually(t, loaded)
	}
}

// TestPusherRealOPARefuses verifies that the server's error is reported if another source, such as a bundle, owns the
// part of data that Berth writes to.
func TestPusherRealOPARefuses(t *testing.T) {
	opa := opaserver.Start(t, opaserver.Options{Files: map[string]string{"rule.rego": `package kubernetes.pods

ns := {}`}})
	k := keep(t, nil)
	a, b := at(t, opa, needsWith("a", allTypes[:1])), at(t, opa, needsWith("b", allTypes[1:2]))
	k.setNeeds(a, b)
	k.replace(ofPods, thing("ns", "p", "1"))
	k.replace(ofNodes, thing("", "n", "1"))
	eventually(t, func() error {
		if complete, _ := k.pusher.Complete("b", ofNodes.GroupVersionResource); !complete {
			return errors.New("what the server takes is not there")
		}
		return nil
	})
	eventually(t, func() error {
		complete, _ := k.pusher.Complete("a", ofPods.GroupVersionResource)
		if err := k.pusher.Failure("a"); err == nil && !complete {
			return errors.New("what the server does not take is neither held nor a failure")
		}
		return nil
	})
}

// BenchmarkPushLoad loads 10,000 pods of 2 KiB into an empty real server.
func BenchmarkPushLoad(b *testing.B) {
	opa := opaserver.Start(b, opaserver.Options{})
	var all []*unstructured.Unstructured
	for i := range 10_000 {
		all = append(all, prepared(ofPods, thing(fmt.Sprintf("ns-%d", i%100), fmt.Sprintf("p-%d", i), strings.Repeat("x", 2000))))
	}
	for b.Loop() {
		b.StopTimer()
		opa.Restart()
		k := keep(b, nil)
		w := at(b, opa, needsWith("a", allTypes[:1]))
		b.StartTimer()
		k.pusher.Replace(ofPods.GroupVersionResource, nil, all)
		k.setNeeds(w)
		eventually(b, func() error {
			if complete, _ := k.pusher.Complete("a", ofPods.GroupVersionResource); !complete {
				return errors.New("not loaded")
			}
			return nil
		})
		b.StopTimer()
		k.stop()
		b.StartTimer()
	}
}
