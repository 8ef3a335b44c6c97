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

package framework

import (
	"context"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// AwaitCondition waits, by a watch, until a condition of a policy's newest generation matches. The policy may not exist yet.
func (f *Framework) AwaitCondition(ctx context.Context, policy, conditionType string, matcher gomega.OmegaMatcher) {
	ginkgo.GinkgoHelper()
	AwaitPolicy(ctx, f, policy, func(p *placementv1.PlacementPolicy) metav1.Condition { return newestCondition(p, conditionType) }, matcher)
}

// AwaitPolicy is AwaitObject for a policy.
func AwaitPolicy[V any](
	ctx context.Context, f *Framework, name string, read func(*placementv1.PlacementPolicy) V, matcher gomega.OmegaMatcher,
) {
	ginkgo.GinkgoHelper()
	AwaitObject(ctx, f, &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}, read, matcher)
}

// AwaitObject waits, by a watch, until what read returns of a stored object matches. The object may not exist yet. o has its type,
// namespace, and name, and is not changed.
func AwaitObject[O client.Object, V any](ctx context.Context, f *Framework, o O, read func(O) V, matcher gomega.OmegaMatcher) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(ctx context.Context) (last V, err error) {
		// Eventually does not interrupt what it calls.
		ctx, cancel := context.WithTimeout(ctx, Timeout)
		defer cancel()
		err = f.watchObject(ctx, o, func(stored client.Object) (bool, error) {
			typed, _ := stored.(O)
			last = read(typed)
			return matcher.Match(last)
		})
		return last, err
	}).WithContext(ctx).Should(matcher)
}

// watchObject calls matches with an object as it is stored, and then with each change, until it returns true. It also returns, without
// an error, when the context ends.
func (f *Framework) watchObject(ctx context.Context, o client.Object, matches func(client.Object) (bool, error)) error {
	stored, _ := o.DeepCopyObject().(client.Object)
	if err := f.Client.Get(ctx, client.ObjectKeyFromObject(o), stored); err != nil {
		return err
	}
	if matched, err := matches(stored); matched || err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(o, f.Client.Scheme())
	if err != nil {
		return err
	}
	list, err := f.newList(o, gvk.GroupVersion().WithKind(gvk.Kind+"List"))
	if err != nil {
		return err
	}
	changes := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return f.Client.Watch(ctx, list, &client.ListOptions{
			Namespace: o.GetNamespace(), FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, o.GetName()), Raw: &options,
		})
	}}
	_, err = watchtools.Until(ctx, stored.GetResourceVersion(), changes, func(event watch.Event) (bool, error) {
		changed, ok := event.Object.(client.Object)
		if !ok {
			return false, apierrors.FromObject(event.Object)
		}
		if event.Type == watch.Deleted {
			return false, nil
		}
		return matches(changed)
	})
	if wait.Interrupted(err) {
		return nil
	}
	return err
}

// newList returns an empty list of a kind, for objects of o's Go type.
func (f *Framework) newList(o client.Object, gvk schema.GroupVersionKind) (client.ObjectList, error) {
	if _, ok := o.(runtime.Unstructured); ok {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		return list, nil
	}
	object, err := f.Client.Scheme().New(gvk)
	list, _ := object.(client.ObjectList)
	return list, err
}
