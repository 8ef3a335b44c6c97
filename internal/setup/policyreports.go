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
	"fmt"

	"k8s.io/client-go/metadata"

	"github.com/berth-dev/berth/controllers/policyreport"
	"github.com/berth-dev/berth/controllers/remediator"
	"github.com/berth-dev/berth/internal/remediation"
)

// newPolicyReports returns the controllers that write policy reports: one for each format in the settings, and nil if there is none. It
// does not add them to the manager.
func newPolicyReports(base *base, evaluation *evaluation, ledger *remediation.Ledger,
	remediation *remediator.Controller) ([]*policyreport.Controller, error) {
	if len(base.settings.policyReports) == 0 {
		return nil, nil
	}
	client, err := metadata.NewForConfig(base.served.config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for policy reports: %w", err)
	}
	var out []*policyreport.Controller
	for _, format := range base.settings.policyReports {
		out = append(out, policyreport.New(policyreport.Deps{
			Format: format, Client: client, Ledger: ledger, Catalog: evaluation.catalog, Settled: remediation.Settled, UID: remediation.UID,
		}))
	}
	return out, nil
}
