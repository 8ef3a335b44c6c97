package watches

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Clusters reads the clusters of the inventories. It asks the API server each time: inventories are watched only while a
// policy reads them. It is safe for concurrent use.
type Clusters struct {
	Client  dynamic.Interface
	Catalog *Catalog
}

const (
	// maxClusters is how many objects of an inventory are read.
	maxClusters = 1000
	// clustersTimeout bounds the reading, for which whoever applies a policy waits.
	clustersTimeout = 2 * time.Second
)

// All returns the clusters as they are at data.clusters[name]; none where an inventory has more than 1000 objects. An error
// means that an inventory can't be read.
func (c *Clusters) All(ctx context.Context) ([]map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, clustersTimeout)
	defer cancel()
	inventories := c.Catalog.Inventories()
	var out []map[string]any
	listed := map[schema.GroupResource]bool{}
	for _, resource := range inventories.Resources() {
		// The versions of an inventory show the same objects.
		if _, served := c.Catalog.Exact(resource); !served || listed[resource.GroupResource()] {
			continue
		}
		listed[resource.GroupResource()] = true
		list, err := c.Client.Resource(resource).List(ctx, metav1.ListOptions{Limit: maxClusters})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
		}
		if list.GetContinue() != "" {
			return nil, nil
		}
		for i := range list.Items {
			if document, ok := inventories.Cluster(resource, list.Items[i].Object); ok {
				out = append(out, document)
			}
		}
	}
	return out, nil
}
