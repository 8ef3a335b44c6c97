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

package remediator

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
)

// TestNeedsOfPlacementObjects checks that the field with the clusters is kept of placement objects.
func TestNeedsOfPlacementObjects(t *testing.T) {
	l := newLeader(t)
	spec := onDeployments("", "")
	spec.Match.ResourceRules[0].APIGroups, spec.Match.ResourceRules[0].Resources = []string{"*"}, []string{"*"}
	spec.Rego = `package p
labels.a := input.metadata.name`
	l.apply("p", spec)
	for resource, want := range map[schema.GroupVersionResource]bool{
		{Group: "policy.karmada.io", Version: "v1", Resource: "propagationpolicies"}: true,
		{Group: "apps", Version: "v1", Resource: "deployments"}:                      false,
	} {
		if got := l.types.fields(resource).Covers(projection.Fields("spec.placement.**")); got != want {
			t.Errorf("%s: %t, want %t", resource.Resource, got, want)
		}
	}
}

// TestNeedsOfEvictions checks that the fields that evictions read are kept of Pods only if a policy evicts.
func TestNeedsOfEvictions(t *testing.T) {
	for name, evict := range map[string]bool{"Evicts": true, "EvictsNot": false} {
		t.Run(name, func(t *testing.T) {
			l := newLeader(t)
			spec := onDeployments("", "")
			spec.Match.ResourceRules[0].APIGroups, spec.Match.ResourceRules[0].Resources = []string{""}, []string{"pods"}
			spec.Rego = `package p
labels.a := input.metadata.name`
			spec.Remediation.Evict = evict
			l.apply("p", spec)
			for resource, want := range map[string]bool{"pods": evict, "services": false} {
				fields := l.types.fields(corev1.SchemeGroupVersion.WithResource(resource))
				if got := fields.Covers(projection.Union(remediation.EvictionFields())); got != want {
					t.Errorf("%s: %v, want %v", resource, got, want)
				}
			}
		})
	}
}

// TestNeedsKeepNoPolicy checks that the last deleted policy is not referenced any more. It would keep its evaluator and its connections.
func TestNeedsKeepNoPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		p := weak.Make(l.put("p", "a", manual, newDistant("https://e", time.Millisecond)))
		l.start()
		if objects, _ := l.wanted(); len(objects) != 1 {
			t.Fatal("the policy matches no type")
		}
		pass(t, time.Second)
		l.Registry.Remove("p")
		pass(t, time.Second)
		runtime.GC()
		if p.Value() != nil {
			t.Error("the policy is kept")
		}
	})
}
