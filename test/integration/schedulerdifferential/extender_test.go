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

package schedulerdifferential_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const (
	// holdAnnotation marks a pod that the extender does not let through.
	holdAnnotation = "test.berth.dev/hold"
	// held is why it does not.
	held = "node(s) are held by the test"
)

// extender is asked by kube-scheduler about each pod for which some node passes all filters.
type extender struct {
	mu sync.Mutex
	// feasible are the names of these nodes, sorted, by the pod's UID, as of the last time that was asked.
	feasible map[string][]string
}

func (e *extender) filter(w http.ResponseWriter, request *http.Request) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(request.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if args.Pod == nil || args.NodeNames == nil {
		http.Error(w, "neither pod nor names of nodes", http.StatusBadRequest)
		return
	}
	names := slices.Sorted(slices.Values(*args.NodeNames))
	e.mu.Lock()
	e.feasible[string(args.Pod.UID)] = names
	e.mu.Unlock()
	result := extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames}
	if _, hold := args.Pod.Annotations[holdAnnotation]; hold {
		result = extenderv1.ExtenderFilterResult{NodeNames: &[]string{}, FailedNodes: extenderv1.FailedNodesMap{}}
		for _, name := range names {
			result.FailedNodes[name] = held
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(result); err != nil {
		http.Error(w, fmt.Sprintf("encoding the answer: %v", err), http.StatusInternalServerError)
	}
}

// of returns the nodes that passed all filters for a pod, sorted. There are none if the scheduler did not send the pod.
func (e *extender) of(uid string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.feasible[uid]
}
