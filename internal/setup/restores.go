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
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/restore"
)

// watchRestores makes base.restores end this replica when the store of the served or the host cluster was restored from a backup. It
// compares the resource versions of successive lists: those of policies by freshness.Monitor, and those of ControllerRevisions in the host
// cluster. It also compares the versions of policies and quotas in the cache. These show a restore after which the store's resource
// versions were increased: etcd then ends all watches, and informers list the objects, which have the versions that they had in the backup.
func watchRestores(ctx context.Context, base *base) error {
	handler := toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) { compareObjects(base.restores, before, after) }}
	for _, object := range []client.Object{
		&placementv1.PlacementPolicy{}, &placementv1.ScopedQuota{}, &placementv1.ClusterScopedQuota{}, &placementv1.LimitedResource{},
	} {
		informer, err := base.mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching whether the store of the API server is restored from a backup: %w", err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching whether the store of the API server is restored from a backup: %w", err)
		}
	}
	if base.state.host != nil {
		if err := base.mgr.Add(&hostPoll{reader: base.state.live, namespace: base.options.Namespace, restores: base.restores}); err != nil {
			return err
		}
	}
	return base.mgr.Add(base.restores)
}

// compareObjects passes the resource versions of an object before and after an informer's update to a detector. It ignores an object that
// was deleted and created again, which has another UID. An informer only accepts a list that is at least as recent as what it has seen. So
// an older version of an object replaces a newer one only after a restore.
func compareObjects(restores *restore.Detector, before, after any) {
	older, known := before.(metav1.Object)
	newer, ok := after.(metav1.Object)
	if known && ok && older.GetUID() == newer.GetUID() {
		// The detector ends the manager.
		_ = restores.Compare(restore.Served, older.GetResourceVersion(), newer.GetResourceVersion())
	}
}

// hostPollInterval is the time between two lists of the ControllerRevisions in the host cluster.
const hostPollInterval = 5 * time.Second

// hostPoll lists ControllerRevisions in the host cluster at intervals, and passes the resource versions of the lists to a detector.
type hostPoll struct {
	// reader reads without a cache.
	reader    client.Reader
	namespace string            // Berth's own namespace
	restores  *restore.Detector // compares the resource versions
}

var (
	_ manager.Runnable               = (*hostPoll)(nil)
	_ manager.LeaderElectionRunnable = (*hostPoll)(nil)
)

// NeedLeaderElection returns false, because every replica has read from the host cluster.
func (*hostPoll) NeedLeaderElection() bool { return false }

// Start lists every hostPollInterval until ctx ends. It compares nothing when a list fails.
func (p *hostPoll) Start(ctx context.Context) error {
	version := ""
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, hostPollInterval)
		defer cancel()
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
		// Without a resource version in the request, the API server answers from its newest state. While it is unavailable, there is
		// nothing to compare.
		if err := p.reader.List(ctx, list, client.InNamespace(p.namespace), client.Limit(1)); err == nil {
			// The detector ends the manager.
			_ = p.restores.Compare(restore.Host, version, list.ResourceVersion)
			version = list.ResourceVersion
		}
	}, hostPollInterval, 0.2, true)
	return nil
}
