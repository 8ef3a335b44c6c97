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
	"errors"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/configuration"
	"github.com/berth-dev/berth/internal/policyreport"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/workload"
)

// settings are what the configuration file and the flags say about predicates, inventories, pod templates, lists of clusters, and policy
// reports.
type settings struct {
	predicates  *predicates.Set          // the predicates that policies may use; one that names another is refused
	inventories *replication.Inventories // the types whose objects represent clusters
	templates   *workload.Templates      // where kinds have their pod template
	// clusterLists says where placement objects list clusters.
	clusterLists *clusterlist.Kinds
	// policyReports are the formats in which policy reports are written; none if they are off.
	policyReports []policyreport.Format
}

// readSettings reads the configuration file, if Options.Config names one, and returns an error for one that is missing or invalid, and for
// unknown names in Options.Predicates and Options.PolicyReports.
func readSettings(o Options) (*settings, error) {
	config := &configuration.ManagerConfiguration{}
	if o.Config != "" {
		var err error
		if config, err = configuration.Load(o.Config); err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
	}
	inventories, err := config.ClusterInventories()
	if err != nil {
		return nil, fmt.Errorf("--config: %s: %w", o.Config, err)
	}
	registry, err := predicates.NewRegistry(o.OwnPredicates...)
	if err != nil {
		return nil, fmt.Errorf("this program was built with an invalid predicate (app.WithPredicate): %w", err)
	}
	if _, err := registry.New(o.Predicates); err != nil {
		return nil, fmt.Errorf("--predicates: %w", err)
	}
	allowed, err := registry.New(o.Predicates, config.PredicateArguments()...)
	if err != nil {
		return nil, fmt.Errorf("--config: %s: predicates: %w", o.Config, err)
	}
	templates, err := config.Templates()
	if err != nil {
		return nil, fmt.Errorf("--config: %s: %w", o.Config, err)
	}
	clusterLists, err := config.ClusterLists()
	if err != nil {
		return nil, fmt.Errorf("--config: %s: %w", o.Config, err)
	}
	reports, err := policyreport.Find(o.PolicyReports)
	if err != nil {
		return nil, fmt.Errorf("--policy-reports: %w", err)
	}
	return &settings{predicates: allowed, inventories: inventories, templates: templates, clusterLists: clusterLists, policyReports: reports},
		nil
}

// defaultPredicates returns the names of the predicates that policies may use by default: all of the scheduler except those for volumes,
// and own. It returns nil if own is invalid; then the manager does not start anyway.
func defaultPredicates(own []predicates.Predicate) []string {
	registry, err := predicates.NewRegistry(own...)
	if err != nil {
		return nil
	}
	return registry.Default()
}

// nameList is the value of a flag with a comma-separated list of names.
type nameList []string

// String returns the names, joined by commas. It implements flag.Value.
func (n *nameList) String() string { return strings.Join(*n, ",") }

// Set replaces the list by the names in a text, which commas separate, without blanks around them. It leaves out empty names, and returns
// an error if no name is left. It implements flag.Value.
func (n *nameList) Set(text string) error {
	*n = nil
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			*n = append(*n, name)
		}
	}
	if len(*n) == 0 {
		return errors.New("must have at least one name")
	}
	return nil
}
