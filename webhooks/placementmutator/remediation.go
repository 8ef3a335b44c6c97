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

package placementmutator

import (
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// Recognize returns a function that reports in ok whether a request is a patch by remediation of any replica: an update by the user with
// the name in identity, and with a field manager of remediation. If the field manager names moves that need an approval, permits reports
// whether verdicts on the object require just those; otherwise it is nil.
func Recognize(identity authenticationv1.UserInfo) func(*admissionv1.AdmissionRequest) (ok bool, permits func([]*placement.Verdict) bool) {
	return func(req *admissionv1.AdmissionRequest) (bool, func([]*placement.Verdict) bool) {
		if req.Operation != admissionv1.Update || req.UserInfo.Username != identity.Username {
			return false, nil
		}
		var options metav1.PatchOptions
		var old metav1.PartialObjectMetadata
		if json.Unmarshal(req.Options.Raw, &options) != nil || !remediation.IsFieldManager(options.FieldManager) {
			return false, nil
		}
		if options.FieldManager == remediation.FieldManager || json.Unmarshal(req.OldObject.Raw, &old) != nil {
			return true, nil
		}
		resource := req.Resource
		if req.RequestResource != nil {
			resource = *req.RequestResource
		}
		// A request for a Namespace has the object's own name as its namespace.
		key := remediation.Key{Resource: schema.GroupVersionResource(resource), Namespace: old.Namespace, Name: req.Name}
		return true, remediation.PermitsOf(options.FieldManager, key, old.UID)
	}
}
