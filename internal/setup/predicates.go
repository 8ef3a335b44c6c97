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
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/configuration"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/replication"
)

// defaultPredicates returns the default list of allowed predicates. It returns nil if own is invalid; the manager then
// does not start anyway.
func defaultPredicates(own []predicates.Predicate) []string {
	registry, err := predicates.NewRegistry(own...)
	if err != nil {
		return nil
	}
	return registry.Default()
}

// nameList is a flag with a comma-separated list of names.
type nameList []string

func (n *nameList) String() string { return strings.Join(*n, ",") }

func (n *nameList) Set(text string) error {
	*n = nil
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			*n = append(*n, name)
		}
	}
	if len(*n) == 0 {
		return errors.New("has no name in it")
	}
	return nil
}

// addConfiguration reads the configuration file and prepares predicates and inventories according to it and the flags.
// No plugin of the scheduler is created before a policy uses predicates.
func (p *components) addConfiguration(context.Context, *rest.Config) error {
	config := &configuration.ManagerConfiguration{}
	if p.options.Config != "" {
		var err error
		if config, err = configuration.Load(p.options.Config); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
	}
	var invalid field.ErrorList
	if p.inventories, invalid = replication.NewInventories(field.NewPath("inventories"), config.Inventories...); len(invalid) > 0 {
		return fmt.Errorf("--config: %s: %w", p.options.Config, invalid.ToAggregate())
	}
	registry, err := predicates.NewRegistry(p.options.OwnPredicates...)
	if err != nil {
		return err
	}
	if _, err := registry.New(p.options.Predicates); err != nil {
		return fmt.Errorf("--predicates: %w", err)
	}
	arguments := make([]predicates.PluginConfig, len(config.Predicates.PluginConfig))
	for i, c := range config.Predicates.PluginConfig {
		arguments[i] = predicates.PluginConfig{Name: c.Name, Args: c.Args}
	}
	if p.predicates, err = registry.New(p.options.Predicates, arguments...); err != nil {
		return fmt.Errorf("--config: %s: predicates: %w", p.options.Config, err)
	}
	if p.templates, err = config.Templates(); err != nil {
		return fmt.Errorf("--config: %s: %w", p.options.Config, err)
	}
	return nil
}
