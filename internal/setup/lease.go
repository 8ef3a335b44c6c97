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
	"fmt"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// leaseName is the name of the lease for leader election.
const leaseName = "berth.placement.berth.dev"

const (
	// leaseCheckInterval is the interval at which a new replica looks for an abandoned lease, and leaseCheckPeriod is how
	// long it does so. A lease is abandoned if it does not change for a time, which no event reports.
	leaseCheckInterval = 2 * time.Second
	leaseCheckPeriod   = time.Minute
	// leaseIdleTime is how long a lease must not change. A running leader renews it every 2 seconds.
	leaseIdleTime = 6 * time.Second
	// longestHostname is the length of the longest hostname that is certainly a pod's whole name. The hostnames of pods
	// with longer names are truncated.
	longestHostname = 62
)

// abandonedLease releases a lease whose holder is a pod that no longer exists and did not release it. That happens when an uninstallation
// removes the permission for it before the pod ends. Otherwise the replicas of the next installation would wait for a lease duration before
// one of them becomes the leader, and nothing would write webhook configurations until then.
//
// A lease counts as abandoned only if it has also expired and was not renewed while this replica watched it. The process of a pod that was
// deleted by force may still run, and its clock may differ.
type abandonedLease struct {
	// client reads and writes without a cache.
	client    client.Client
	namespace string
	// hostname is the hostname of this process, which is the name of its pod.
	hostname string
	clock    clock.PassiveClock
	// elected is closed when this replica becomes the leader.
	elected <-chan struct{}

	// version is the resource version of the lease that was last seen.
	version string
	// since is when this replica first saw version. If the lease keeps it for leaseIdleTime from then, it counts as not renewed.
	since time.Time
}

var (
	_ manager.Runnable               = (*abandonedLease)(nil)
	_ manager.LeaderElectionRunnable = (*abandonedLease)(nil)
)

// addLease adds an abandonedLease to the manager, if leader election is on.
func addLease(mgr manager.Manager, own *state, o Options) error {
	if !o.LeaderElection {
		return nil
	}
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the hostname: %w", err)
	}
	return mgr.Add(&abandonedLease{
		client: own.live, namespace: o.Namespace, hostname: hostname, clock: clock.RealClock{}, elected: mgr.Elected(),
	})
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. It returns false, because no replica is the leader yet.
func (l *abandonedLease) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It checks the lease until no further check is needed, this replica becomes the leader, or
// leaseCheckPeriod is over.
func (l *abandonedLease) Start(ctx context.Context) error {
	log := ctrllog.FromContext(ctx).WithName("lease")
	err := wait.PollUntilContextTimeout(ctx, leaseCheckInterval, leaseCheckPeriod, true, func(ctx context.Context) (bool, error) {
		select {
		case <-l.elected:
			return true, nil
		default:
		}
		done, err := l.check(ctrllog.IntoContext(ctx, log))
		if err != nil && ctx.Err() == nil {
			log.Error(err, "Cannot check or release the lease, so the next leader may wait for a lease duration", "lease", leaseName)
		}
		return done, nil
	})
	if err != nil && !wait.Interrupted(err) {
		return err
	}
	return nil
}

// check releases the lease if it is abandoned. done reports whether no further check is needed: the lease was released, it does not exist,
// its holder is this replica or may not be a pod, or Berth may not read pods, which is also an error. After any other error, done is false.
func (l *abandonedLease) check(ctx context.Context) (done bool, err error) {
	lease := &coordinationv1.Lease{}
	if err := l.client.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: leaseName}, lease); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	// The identities of controller-runtime consist of a hostname and a random ID.
	holder, _, isPod := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	if !isPod || holder == l.hostname || len(holder) > longestHostname {
		return true, nil
	}
	// If this replica is not a pod of the namespace, the holder may not be one either.
	if ownPodExists, err := l.podExists(ctx, l.hostname); err != nil || !ownPodExists {
		return err == nil || apierrors.IsForbidden(err), err
	}
	if holderExists, err := l.podExists(ctx, holder); err != nil || holderExists {
		return apierrors.IsForbidden(err), err
	}
	if lease.ResourceVersion != l.version {
		l.version, l.since = lease.ResourceVersion, l.clock.Now()
	}
	if !expired(lease, l.clock.Now()) || l.clock.Since(l.since) < leaseIdleTime {
		return false, nil
	}
	ctrllog.FromContext(ctx).Info("Releasing the expired lease of a leader whose pod no longer exists", "lease", leaseName, "holder",
		ptr.Deref(lease.Spec.HolderIdentity, ""))
	now := metav1.NewMicroTime(l.clock.Now())
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	err = l.client.Update(ctx, lease)
	if apierrors.IsConflict(err) {
		// Another client updated the lease first.
		return false, nil
	}
	return err == nil, err
}

// podExists reports whether Berth's namespace has a pod of a name.
func (l *abandonedLease) podExists(ctx context.Context, name string) (bool, error) {
	err := l.client.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: name}, &corev1.Pod{})
	return err == nil, client.IgnoreNotFound(err)
}

// expired reports whether the holder of a lease should have renewed it before now, or the lease does not say when.
func expired(lease *coordinationv1.Lease, now time.Time) bool {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return true
	}
	return now.After(lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second))
}
