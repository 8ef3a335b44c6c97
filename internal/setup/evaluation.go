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
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/watches"
)

// evaluation has the engines that evaluate policies and quotas, the data that they read, and the policies in force. The controllers fill
// it.
type evaluation struct {
	catalog  *watches.Catalog      // the types that the API server serves
	schemas  *schemas.Checker      // checks the types of fields in policies against published schemas
	registry *placement.Registry   // the policies in force
	data     *embedded.Data        // the replica data that policies read
	world    *predicates.NodeCache // the nodes and pods that predicates read
	engines  engines
	clients  *opaclient.Pool // the clients of remote engines
	secrets  *engineSecrets  // the Secrets with credentials for remote engines

	deviceClasses   *watches.DeviceClasses
	quotaEvaluators *quota.Evaluators // measure, by the Go code of Kubernetes, what an object takes of quotas, and its scopes
	quotaCompiler   *quota.Compiler   // compiles what quotas count
}

// newEvaluation creates the engines, without policies and data. It runs discovery once.
func newEvaluation(ctx context.Context, base *base) (*evaluation, error) {
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(base.served.config)
	if err != nil {
		return nil, err
	}
	catalog := watches.NewCatalog(discoveryClient, base.settings.inventories)
	if err := catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	checker, err := newSchemaChecker(base.served.config, catalog)
	if err != nil {
		return nil, err
	}
	data, world, registry := embedded.NewData(), predicates.NewNodeCache(), placement.NewRegistry()
	engine := embedded.New(data, embedded.Options{
		Timeout: base.options.EvaluationTimeout, Concurrency: base.options.EvaluationConcurrency,
		Observer:   base.metrics,
		Predicates: base.settings.predicates, Templates: base.settings.templates, World: world,
	})
	secrets := newEngineSecrets(base.state.live, base.options.Namespace, clock.RealClock{})
	clients := opaclient.NewPool(opaclient.Options{Secrets: secrets, UserAgent: "berth/" + Version()})
	deviceClasses := watches.NewDeviceClasses(base.hub, catalog)
	return &evaluation{
		catalog: catalog, schemas: checker, registry: registry, data: data, world: world,
		engines: engines{embedded: engine, remote: newRemote(base, registry, clients)},
		clients: clients, secrets: secrets,

		deviceClasses:   deviceClasses,
		quotaEvaluators: quota.NewEvaluators(clock.RealClock{}, newDevices(base.served.live, deviceClasses)),
		quotaCompiler:   quota.NewCompiler(engine.PrepareGenerated),
	}, nil
}

// deviceTimeout is the timeout of reading the pod to which a ResourceClaim belongs, and that of listing the claims of the pod. If one of
// the two fails, the quota counts the whole claim, also what it counts for the pod.
const deviceTimeout = 3 * time.Second

// newDevices returns what the measurement of ResourceClaims at admission needs. It reads pods and claims from the API server and not from a
// cache, because only claims that the scheduler creates for extended resources need them.
func newDevices(live client.Reader, classes *watches.DeviceClasses) quota.Devices {
	return quota.Devices{
		Classes: classes.Cache,
		Settled: classes.Settled,
		Pod: func(namespace, name string) (*corev1.Pod, error) {
			ctx, cancel := context.WithTimeout(context.Background(), deviceTimeout)
			defer cancel()
			pod := &corev1.Pod{}
			return pod, live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
		},
		Claims: func(namespace string, owner types.UID) ([]*resourcev1.ResourceClaim, error) {
			ctx, cancel := context.WithTimeout(context.Background(), deviceTimeout)
			defer cancel()
			return listClaims(ctx, live, namespace, owner)
		},
	}
}

// claimPage is how many ResourceClaims are read at once. Users choose how many a namespace has, and their size.
const claimPage = 100

// listClaims returns the ResourceClaims that the scheduler created for extended resources of the pod with the UID owner, and none that were
// created from the pod's claim templates. Of each, only the name and the creation time are set.
func listClaims(ctx context.Context, live client.Reader, namespace string, owner types.UID) ([]*resourcev1.ResourceClaim, error) {
	var out []*resourcev1.ResourceClaim
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(resourcev1.SchemeGroupVersion.WithKind("ResourceClaimList"))
	for {
		if err := live.List(ctx, page, client.InNamespace(namespace), client.Limit(claimPage), client.Continue(page.Continue)); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if c := &page.Items[i]; quota.ClaimOwner(c) == owner {
				out = append(out, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: c.Name, CreationTimestamp: c.CreationTimestamp}})
			}
		}
		if page.Continue == "" {
			return out, nil
		}
	}
}

// schemaTimeout is how long the API server may take to return the schemas of one group and version. If it takes longer, the check of a
// policy that needs these schemas fails.
const schemaTimeout = 3 * time.Second

// newSchemaChecker returns a type checker with a client for published schemas. The client has a timeout of its own, because its requests
// take no context.
func newSchemaChecker(cfg *rest.Config, catalog *watches.Catalog) (*schemas.Checker, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = schemaTimeout
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return schemas.NewChecker(catalog, discoveryClient.OpenAPIV3()), nil
}
