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
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/restore"
)

func TestCompareObjects(t *testing.T) {
	version := func(uid types.UID, version string) *placementv1.ScopedQuota {
		return &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", UID: uid, ResourceVersion: version}}
	}
	tests := map[string]struct {
		before, after *placementv1.ScopedQuota
		restored      bool
	}{
		"Changed":      {before: version("1", "7"), after: version("1", "8")},
		"Resynced":     {before: version("1", "7"), after: version("1", "7")},
		"CreatedAgain": {before: version("1", "7"), after: version("2", "6")},
		"Restored":     {before: version("1", "7"), after: version("1", "6"), restored: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := restore.NewDetector()
			compareObjects(d, test.before, test.after)
			if err := d.Err(); (err != nil) != test.restored {
				t.Errorf("got %v", err)
			}
		})
	}
}

// hostLists is a host cluster whose lists have these versions, one after the other. An empty one is an error.
type hostLists struct {
	client.Reader
	versions []string
}

func (h *hostLists) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	version := h.versions[0]
	if len(h.versions) > 1 {
		h.versions = h.versions[1:]
	}
	if version == "" {
		return errors.New("unavailable")
	}
	list.SetResourceVersion(version)
	return nil
}

func TestHostPoll(t *testing.T) {
	for name, test := range map[string]struct {
		versions []string
		restored bool
	}{
		"Changes":                 {versions: []string{"7", "7", "9", "10"}},
		"Unavailable":             {versions: []string{"", "7", "", "", "7"}},
		"Restored":                {versions: []string{"7", "9", "8"}, restored: true},
		"RestoredWhenUnavailable": {versions: []string{"7", "9", "", "8"}, restored: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				d := restore.NewDetector()
				if err := (&hostPoll{reader: &hostLists{versions: test.versions}, namespace: "berth-system", restores: d}).Start(ctx); err != nil {
					t.Error(err)
				}
				if err := d.Err(); (err != nil) != test.restored {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
