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
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestRejectedWebhook(t *testing.T) {
	invalid := func(errs ...*field.Error) error {
		return apierrors.NewInvalid(schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}, WorkloadsName, errs)
	}
	selector := field.Invalid(field.NewPath("webhooks").Index(2).Child("objectSelector", "matchLabels"), "x", "is bad")
	const text = `webhooks[2].objectSelector.matchLabels: Invalid value: "x": is bad`
	tests := map[string]struct {
		err        error
		want       int
		wantReason string
	}{
		"None":       {err: nil, want: -1},
		"Other":      {err: errors.New("webhooks[2]"), want: -1},
		"Conflict":   {err: apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("webhooks[2]")), want: -1},
		"Webhook":    {err: invalid(selector), want: 2, wantReason: text},
		"Wrapped":    {err: fmt.Errorf("updating: %w", invalid(selector)), want: 2, wantReason: text},
		"TheFirst":   {err: invalid(selector, field.Required(field.NewPath("webhooks").Index(0).Child("name"), "")), want: 2, wantReason: text},
		"Ten":        {err: invalid(field.Required(field.NewPath("webhooks").Index(10).Child("name"), "oh")), want: 10, wantReason: "webhooks[10].name: Required value: oh"},
		"Whole":      {err: invalid(field.TooMany(field.NewPath("webhooks"), 3, 2)), want: -1},
		"OtherField": {err: invalid(field.Required(field.NewPath("metadata", "name"), "")), want: -1},
		"OtherList":  {err: invalid(field.Required(field.NewPath("otherwebhooks").Index(1), "")), want: -1},
		"NoCauses":   {err: invalid(), want: -1},
		"NoDetails":  {err: &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid}}, want: -1},
		"NoNumber":   {err: invalid(field.Required(field.NewPath("webhooks").Key("name"), "")), want: -1},
		"NotClosed":  {err: &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "webhooks[1"}}}}}, want: -1},
		// Without the webhook, the request would still be invalid because of the other cause.
		"SecondCause": {err: invalid(field.Required(field.NewPath("metadata", "name"), ""), selector), want: -1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, reason := rejectedWebhook(tc.err)
			if got != tc.want || (tc.wantReason != "" && reason != tc.wantReason) {
				t.Errorf("rejectedWebhook() = %d, %q; want %d, %q", got, reason, tc.want, tc.wantReason)
			}
		})
	}
}
