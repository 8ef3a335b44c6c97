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

package watches

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Clusters reads the clusters of the inventories. It reads from the API server each time, because inventories are
// watched only while a policy reads them. It is safe for concurrent use.
type Clusters struct {
	Client  dynamic.Interface
	Catalog *Catalog
}

const (
	// maxClusters is the number of objects of an inventory above which All returns no clusters.
	maxClusters = 1000
	// clustersTimeout is the timeout of the read, because the client that applies a policy waits for it.
	clustersTimeout = 2 * time.Second
)

// All returns the clusters of all inventories that are served, in the normal form (see Inventories.Cluster), and messages about sources in
// the manager's configuration that select nothing. It returns neither if an inventory has more than maxClusters objects. An error means
// that an inventory can't be read.
func (c *Clusters) All(ctx context.Context) (clusters []map[string]any, idle []string, err error) {
	clusters, idle, _, err = c.read(ctx)
	return clusters, idle, err
}

// read does the same as All. complete is false if it returns no clusters because an inventory has more than maxClusters objects, and with
// an error.
func (c *Clusters) read(ctx context.Context) (clusters []map[string]any, idle []string, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, clustersTimeout)
	defer cancel()
	inventories := c.Catalog.Inventories()
	served := func(r schema.GroupVersionResource) bool {
		_, ok := c.Catalog.Exact(r)
		return ok
	}
	for _, resource := range inventories.Served(served) {
		list, err := c.Client.Resource(resource).List(ctx, metav1.ListOptions{Limit: maxClusters})
		if err != nil {
			return nil, nil, false, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
		}
		if list.GetContinue() != "" {
			return nil, nil, false, nil
		}
		objects := make([]map[string]any, len(list.Items))
		for i := range list.Items {
			objects[i] = list.Items[i].Object
		}
		some, none := inventories.Clusters(resource, objects)
		clusters, idle = append(clusters, some...), append(idle, none...)
	}
	return clusters, idle, true, nil
}
