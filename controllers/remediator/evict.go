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
	"context"
	"fmt"
	"net/http"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/remediation"
)

// evict evicts the Pod for the verdicts that are due. Its controller creates another one, which the webhook places. Unlike a
// patch, no webhook checks the approved move, so ask does it right before.
func (c *Controller) evict(ctx context.Context, s *scope) {
	key, obj, due := s.key, s.object, s.due
	s.asked = true
	if ok, retry := c.ask(key, obj, due); !ok {
		if retry > 0 {
			s.retryWithin(retry)
		}
		return
	}
	ctrllog.FromContext(ctx).V(2).Info("Evicting")
	err := c.postEviction(ctx, obj)
	patch := remediation.Patch{Ending: remediation.Made, Object: obj, UID: obj.GetUID()}
	if err != nil {
		patch = remediation.Patch{Ending: endingOf(err), Object: obj, Reason: err.Error()}
	}
	result := c.Scheduler.Done(c.Clock.Now(), key, due, patch)
	if err == nil {
		c.Events.OnObject(obj, key.Namespace, events.Evicted, due.String())
		if result.Age > 0 {
			c.Events.OnObject(obj, key.Namespace, events.RemediationStopped, fmt.Sprintf("%s: its controller keeps creating Pods that violate the decision; "+
				"Berth evicts the next one when it is %s old", due.Policies(), result.Age))
		}
	}
	if retry := c.conclusionOf(ctx, key, obj, due, patch, result, err).RequeueAfter; retry > 0 {
		s.retryWithin(retry)
	}
}

// postEviction evicts a Pod through the Eviction API, in the version that was decided.
func (c *Controller) postEviction(ctx context.Context, pod *unstructured.Unstructured) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName()},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(pod.GetUID()), ResourceVersion: new(pod.GetResourceVersion())}},
	}
	var status metav1.Status
	// The client would wait and retry when a PodDisruptionBudget does not allow the eviction, and so block a worker.
	err := c.Core.Post().MaxRetries(0).Namespace(pod.GetNamespace()).Resource("pods").Name(pod.GetName()).SubResource("eviction").Body(eviction).Do(ctx).Into(&status)
	if err == nil && status.Status == metav1.StatusFailure {
		// The API server returns a failure as the result if several PodDisruptionBudgets select the Pod.
		err = &apierrors.StatusError{ErrStatus: status}
	}
	if s, ok := err.(apierrors.APIStatus); ok && s.Status().Code == http.StatusInternalServerError && s.Status().Reason == metav1.StatusReasonUnknown {
		// The reason is the Pod's own, unlike that of other internal errors.
		return apierrors.NewForbidden(policyv1.Resource("evictions"), pod.GetName(), err)
	}
	return err
}

// isProtected reports whether a PodDisruptionBudget does not allow an eviction now. Other requests are refused as too many, too,
// if the API server is overloaded.
func isProtected(err error) bool {
	return apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}
