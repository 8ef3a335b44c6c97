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

package webhookconfiguration

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/quota"
)

// sources has a token and a certificate that do not change.
type sources struct{}

func (sources) Current() (string, bool)  { return "token", true }
func (sources) CABundle() []byte         { return []byte("bundle") }
func (sources) Changes() <-chan struct{} { return nil }

// TestOvertaken checks that a write of another replica between the read and the write is no error, and that the controller looks again.
func TestOvertaken(t *testing.T) {
	configurations := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}
	for name, tc := range map[string]struct {
		err    error
		failed bool
	}{
		"Written":   {},
		"Created":   {apierrors.NewAlreadyExists(configurations, "a"), false},
		"Changed":   {apierrors.NewConflict(configurations, "a", errors.New("changed")), false},
		"Forbidden": {apierrors.NewForbidden(configurations, "a", errors.New("no")), true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(clientgoscheme.AddToScheme(scheme), placementv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(meta.NewDefaultRESTMapper(nil)).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, to client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					if tc.err != nil {
						return tc.err
					}
					return to.Create(ctx, obj, opts...)
				},
			}).Build()
			written := New(c, c, placement.NewRegistry(), quota.NewEvaluators(clock.RealClock{}, quota.Devices{}), func(context.Context) bool { return true },
				sources{}, sources{}, Options{URL: "https://berth.test"})
			result, err := written.Reconcile(t.Context(), reconcile.Request{})
			if (err != nil) != tc.failed || (result.RequeueAfter > 0) != (tc.err != nil && !tc.failed) {
				t.Errorf("%v, %v", result, err)
			}
		})
	}
}
