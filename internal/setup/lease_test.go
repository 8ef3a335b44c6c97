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

package setup

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestAbandonedLease(t *testing.T) {
	const namespace, own, other = "operators", "berth-a", "berth-b"
	now := time.Now()
	tests := map[string]struct {
		holder string
		// renewed is how long ago the lease was renewed. Its duration is 15 seconds.
		renewed time.Duration
		pods    []string
		// living makes the leader renew the lease during the test, with a clock that is an hour behind.
		living bool
		// released reports whether the lease is free afterwards, and done whether no further check is needed.
		released, done bool
	}{
		"PodGone":           {holder: other + "_1", renewed: time.Hour, pods: []string{own}, released: true, done: true},
		"PodGoneJustNow":    {holder: other + "_1", renewed: 5 * time.Second, pods: []string{own}},
		"ClockIsBehind":     {holder: other + "_1", renewed: time.Hour, pods: []string{own}, living: true},
		"PodIsThere":        {holder: other + "_1", renewed: time.Hour, pods: []string{own, other}},
		"Own":               {holder: own + "_1", renewed: time.Hour, pods: []string{own}, done: true},
		"ReplicasAreNoPods": {holder: other + "_1", renewed: time.Hour, done: true},
		"HolderIsNoPod":     {holder: "somebody", renewed: time.Hour, pods: []string{own}, done: true},
		"NameIsCut":         {holder: strings.Repeat("b", 63) + "_1", renewed: time.Hour, pods: []string{own}, done: true},
		"Free":              {renewed: time.Hour, pods: []string{own}, released: true, done: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			lease := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: &tc.holder, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now.Add(-tc.renewed))),
				},
			}
			objects := []client.Object{lease}
			for _, pod := range tc.pods {
				objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}})
			}
			c := fake.NewClientBuilder().WithObjects(objects...).Build()
			clock := clocktesting.NewFakePassiveClock(now)
			l := &abandonedLease{client: c, namespace: namespace, hostname: own, clock: clock}
			for looked, done := time.Duration(0), false; looked <= leaseIdleTime; looked += leaseCheckInterval {
				if done {
					break
				}
				clock.SetTime(now.Add(looked))
				if tc.living {
					if err := c.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
						t.Fatal(err)
					}
					lease.Spec.RenewTime = new(metav1.NewMicroTime(clock.Now().Add(-tc.renewed)))
					if err := c.Update(t.Context(), lease); err != nil {
						t.Fatal(err)
					}
				}
				var err error
				done, err = l.check(t.Context())
				if last := looked == leaseIdleTime; err != nil || done && !tc.done || last && done != tc.done {
					t.Errorf("after %v: check() = %v, %v; want %v in the end", looked, done, err, tc.done)
				}
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
				t.Fatal(err)
			}
			if released := ptr.Deref(lease.Spec.HolderIdentity, "") == ""; released != tc.released {
				t.Errorf("the holder is %q", ptr.Deref(lease.Spec.HolderIdentity, ""))
			}
		})
	}
	denied := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, isPod := o.(*corev1.Pod); isPod {
			return apierrors.NewForbidden(corev1.Resource("pods"), key.Name, nil)
		}
		return c.Get(ctx, key, o, opts...)
	}}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new(other + "_1")},
	}
	blind := fake.NewClientBuilder().WithObjects(lease).WithInterceptorFuncs(denied).Build()
	l := &abandonedLease{client: blind, namespace: namespace, hostname: own, clock: clocktesting.NewFakePassiveClock(now)}
	if done, err := l.check(t.Context()); !apierrors.IsForbidden(err) || !done {
		t.Errorf("without the right to read pods: check() = %v, %v", done, err)
	}
	l = &abandonedLease{client: fake.NewClientBuilder().Build(), namespace: namespace, hostname: own, clock: clocktesting.NewFakePassiveClock(now)}
	if done, err := l.check(t.Context()); err != nil || !done {
		t.Errorf("without a lease: check() = %v, %v", done, err)
	}
}
