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

package webhookconfiguration

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestOwned(t *testing.T) {
	role := func(name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: name, UID: uid}
	}
	owner, other := role("berth", "1"), role("other", "2")
	first, second := role("berth.v1-a", "3"), role("berth.v1-b", "4")
	tests := map[string]struct {
		have   []metav1.OwnerReference
		owners []metav1.OwnerReference
		want   []metav1.OwnerReference
	}{
		"None":        {},
		"New":         {owners: []metav1.OwnerReference{owner}, want: []metav1.OwnerReference{owner}},
		"Known":       {have: []metav1.OwnerReference{owner, other}, owners: []metav1.OwnerReference{owner}, want: []metav1.OwnerReference{owner, other}},
		"NotReadNow":  {have: []metav1.OwnerReference{owner}, want: []metav1.OwnerReference{owner}},
		"Successor":   {have: []metav1.OwnerReference{role("berth", "0"), other}, owners: []metav1.OwnerReference{owner}, want: []metav1.OwnerReference{other, owner}},
		"Several":     {have: []metav1.OwnerReference{second}, owners: []metav1.OwnerReference{first, second}, want: []metav1.OwnerReference{second, first}},
		"NextVersion": {have: []metav1.OwnerReference{first}, owners: []metav1.OwnerReference{second}, want: []metav1.OwnerReference{first, second}},
		"NamedOneIsNotSelected": {
			have: []metav1.OwnerReference{owner}, owners: []metav1.OwnerReference{first}, want: []metav1.OwnerReference{first},
		},
		"OfTheNameButNoRole": {
			have:   []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "berth", UID: "9"}},
			owners: []metav1.OwnerReference{first},
			want:   []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "berth", UID: "9"}, first},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Owners{Name: "berth"}.owned(tc.have, tc.owners)); diff != "" {
				t.Errorf("owned() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadOwners checks that with labels, the ClusterRole with the name is not an owner even if it exists, because OLM
// never deletes it.
func TestReadOwners(t *testing.T) {
	named := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "berth", UID: "1"}}
	selected := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "berth.v1-a", UID: "2", Labels: OLMLabels("operators", "berth.v1")}}
	tests := map[string]struct {
		roles  []client.Object
		labels map[string]string
		want   []string
		// refused reports whether no configuration may be created.
		refused bool
	}{
		"Named":        {roles: []client.Object{named, selected}, want: []string{"berth"}},
		"NamedIsGone":  {roles: []client.Object{selected}, refused: true},
		"Selected":     {roles: []client.Object{named, selected}, labels: selected.Labels, want: []string{"berth.v1-a"}},
		"SelectedGone": {roles: []client.Object{named}, labels: selected.Labels, refused: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := Owners{Name: "berth", Labels: tc.labels}
			owners, err := o.read(t.Context(), fake.NewClientBuilder().WithObjects(tc.roles...).Build())
			if err != nil {
				t.Fatal(err)
			}
			var have []string
			for _, r := range owners {
				have = append(have, r.Name)
			}
			if diff := cmp.Diff(tc.want, have); diff != "" {
				t.Errorf("read() (-want +got):\n%s", diff)
			}
			if err := o.mayCreate(WorkloadsName, owners); errors.Is(err, errNoOwner) != tc.refused {
				t.Errorf("mayCreate() = %v", err)
			}
		})
	}
}

func TestAdopterWaitsForItsRoles(t *testing.T) {
	labels := OLMLabels("operators", "berth.v2")
	tests := map[string]struct {
		// granted is when the role appears; 0 for never.
		granted time.Duration
		want    []string
		// early is when the adopter must not be done yet, and done is when it must be.
		early, done time.Duration
	}{
		"RolesComeLate":  {granted: 3500 * time.Millisecond, want: []string{"berth.v1-x", "berth.v2-x"}, early: 3 * time.Second, done: 5 * time.Second},
		"RolesNeverCome": {want: []string{"berth.v1-x"}, early: 15 * time.Second, done: ownerTries * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{
					Name:            WorkloadsName,
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "berth.v1-x", UID: "1"}},
				}}
				c := fake.NewClientBuilder().WithObjects(hook).Build()
				a := NewAdopter(c, c, Owners{Name: "berth-manager-role", Labels: labels})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				go func() {
					if err := a.Start(ctx); err != nil {
						t.Error(err)
					}
				}()
				if tc.granted > 0 {
					time.AfterFunc(tc.granted, func() {
						role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "berth.v2-x", UID: "2", Labels: labels}}
						if err := c.Create(ctx, role); err != nil {
							t.Error(err)
						}
					})
				}
				<-time.After(tc.early)
				synctest.Wait()
				if a.Done() {
					t.Errorf("done after %s", time.Since(start))
				}
				<-time.After(tc.done - tc.early)
				synctest.Wait()
				if !a.Done() {
					t.Errorf("not done after %s", time.Since(start))
				}
				if err := c.Get(ctx, client.ObjectKeyFromObject(hook), hook); err != nil {
					t.Fatal(err)
				}
				var owners []string
				for _, r := range hook.OwnerReferences {
					owners = append(owners, r.Name)
				}
				if diff := cmp.Diff(tc.want, owners); diff != "" {
					t.Errorf("owners (-want +got):\n%s", diff)
				}
			})
		})
	}
}
