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

package remediator

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestRefusedForTheObjectsOwnSake(t *testing.T) {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), "web", errors.New(why))
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"NotTaken":       {errNotTaken, false},
		"Connection":     {errors.New("connection refused"), false},
		"WebhookDown":    {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"NoRight":        {forbidden(`User "berth" cannot patch resource "configmaps" in API group "" in the namespace "shop"`), false},
		"Denied":         {forbidden(`admission webhook "other.example.com" denied the request: no`), true},
		"Quota":          {forbidden(`exceeded quota: compute`), true},
		"Invalid":        {apierrors.NewBadRequest("no"), true},
		"TooManyAtATime": {apierrors.NewTooManyRequests("later", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refused(test.err); got != test.want {
				t.Errorf("refused: %t, want %t", got, test.want)
			}
		})
	}
}
