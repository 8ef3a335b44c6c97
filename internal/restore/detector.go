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

// Package restore detects that the store of an API server went back to an earlier state, as a restore of etcd from a backup does. What this
// process has read since the backup then never happened. The API server accepts watches from resource versions that are ahead of its
// store, and omits every event up to them. So the process ends, and reads everything again when it starts.
package restore

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Cluster names the API server that an object was read from: that of the served cluster, or that of the host cluster.
type Cluster string

// The clusters whose API servers Berth reads from.
const (
	Served Cluster = "served"
	Host   Cluster = "host"
)

// Detector is a Runnable that ends its manager, and so the process, when the store of an API server has gone back to an earlier state, as
// after a restore from a backup. It is safe for concurrent use. Create it with NewDetector.
type Detector struct {
	// detected ends when Compare finds that a store went back. Its cause is the error of Err.
	detected context.Context
	end      context.CancelCauseFunc // Ends detected.
}

var (
	_ manager.Runnable               = (*Detector)(nil)
	_ manager.LeaderElectionRunnable = (*Detector)(nil)
)

// NewDetector returns a detector that has not found a restore.
func NewDetector() *Detector {
	d := &Detector{}
	d.detected, d.end = context.WithCancelCause(context.Background())
	return d
}

// NeedLeaderElection returns false, because every replica remembers what it has read.
func (*Detector) NeedLeaderElection() bool { return false }

// Start waits until ctx ends, and returns nil, or until Compare finds that a store went back, and returns Err.
func (d *Detector) Start(ctx context.Context) error {
	select {
	case <-d.detected.Done():
	case <-ctx.Done():
	}
	return d.Err()
}

// Err returns the error with which the process must end because a store went back; nil if none has.
func (d *Detector) Err() error { return context.Cause(d.detected) }

// Compare compares two resource versions of one list or of one object, and returns Err. If the second one is lower, the store must have
// gone back. So the caller must have known the first one before it read the second one, and not from a cache of the API server that may be
// older. Versions that can't be compared, such as an empty one, prove nothing.
func (d *Detector) Compare(cluster Cluster, first, second string) error {
	if order, err := resourceversion.CompareResourceVersion(second, first); err == nil && order < 0 && d.Err() == nil {
		d.end(fmt.Errorf("the API server's store of the %s cluster went back from resource version %s to %s, as after a restore "+
			"from a backup; this replica must start again to read the earlier state",
			cluster, first, second))
		ctrllog.Log.WithName("restore").Info("The API server's store went back to an earlier state. This replica ends, and reads everything "+
			"again when it starts", "cluster", cluster, "from", first, "to", second)
	}
	return d.Err()
}
