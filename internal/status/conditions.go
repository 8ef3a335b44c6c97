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

package status

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/printable"
)

const (
	// maxConditionMessage limits a condition's message. It is lower than the schema's limit.
	maxConditionMessage = 4096
	// maxNames is the maximum number of names that FirstNames lists.
	maxNames = 3
)

// Conditions reads and sets the conditions in the status of one object. All that it sets get the same observedGeneration.
type Conditions struct {
	List       *[]metav1.Condition // The conditions of the object's status.
	Generation int64               // The observedGeneration of the conditions that are set.
}

// Set sets the condition of a type to next, which True, False, or Unknown returned, and truncates its message to maxConditionMessage bytes.
// It removes the condition if next is nil.
func (c *Conditions) Set(conditionType string, next *metav1.Condition) {
	if next == nil {
		meta.RemoveStatusCondition(c.List, conditionType)
		return
	}
	meta.SetStatusCondition(c.List, metav1.Condition{
		Type: conditionType, Status: next.Status, Reason: next.Reason, ObservedGeneration: c.Generation,
		Message: printable.Truncate(next.Message, maxConditionMessage),
	})
}

// Find returns the condition of a type, or nil if it is not set.
func (c *Conditions) Find(conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(*c.List, conditionType)
}

// True returns a condition without a type, with the status True.
func True(reason, message string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False returns a condition without a type, with the status False.
func False(reason, message string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Unknown returns a condition without a type, with the status Unknown.
func Unknown(reason, message string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// ReasonOf returns the reason of a condition for an error in listing or watching a resource type: Forbidden for the HTTP status 403,
// NotServed for 404 and 405, and WatchFailed for any other error.
func ReasonOf(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return placementv1.ReasonForbidden
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return placementv1.ReasonNotServed
	default:
		return placementv1.ReasonWatchFailed
	}
}

// Explain returns a message about an error in reading the objects of a resource type: for the HTTP status 403, the rule to grant; otherwise
// the type and the text of the error.
func Explain(r schema.GroupResource, err error) string {
	if apierrors.IsForbidden(err) {
		return Grant("read", r, "get, list, watch", err)
	}
	return fmt.Sprintf("reading %s: %v", r, err)
}

// Grant returns a message that Berth lacks permissions for a type, with the rule to grant. what says for what, such as "read".
func Grant(what string, r schema.GroupResource, verbs string, err error) string {
	return fmt.Sprintf("Berth may not %s %s: grant it by a ClusterRole labelled placement.berth.dev/aggregate-to-manager=true with the rule "+
		"{apiGroups: [%q], resources: [%q], verbs: [%s]} (%v)",
		what, r, r.Group, r.Resource, verbs, err)
}

// FirstNames lists the first names for a message, such as "a, b, c and 4 more".
func FirstNames(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}
