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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/internal/replication"
)

// Scores reads the scores that add-ons of Open Cluster Management report of clusters. It reads from the API server each time, because they
// are watched only while a policy reads them. It is safe for concurrent use.
type Scores struct {
	Client  dynamic.Interface
	Catalog *Catalog
}

// maxScores is the number of AddOnPlacementScores above which All returns an error.
const maxScores = 5 * maxClusters

// All returns the scores of each cluster that are valid now, by the names that rules use (see replication.Scores). It returns nil if the
// API server does not serve AddOnPlacementScores, and an error if there are more than maxScores of them.
func (s *Scores) All(ctx context.Context) (map[string]map[string]any, error) {
	resource := replication.AddOnPlacementScores
	if _, ok := s.Catalog.Exact(resource); !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, clustersTimeout)
	defer cancel()
	list, err := s.Client.Resource(resource).List(ctx, metav1.ListOptions{Limit: maxScores})
	switch {
	case err != nil:
		return nil, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	case list.GetContinue() != "":
		return nil, fmt.Errorf("there are more than %d %s, which are too many to read", maxScores, resource.GroupResource())
	}
	objects := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		objects[i], _ = replication.Valid(resource, &list.Items[i], time.Now())
	}
	return replication.Scores(objects), nil
}
