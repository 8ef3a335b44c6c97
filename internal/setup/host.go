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
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// state is where Berth keeps its own state: its Secrets, its lease, and the last versions of policies that compiled.
type state struct {
	// live reads and writes without a cache.
	live client.Client
	// host is the host cluster, or nil if the state is in the served cluster.
	host cluster.Cluster
}

// connectState connects to the host cluster if Berth keeps its own state there and not in the served cluster.
func connectState(ctx context.Context, served *servedCluster, o Options) (*state, error) {
	switch o.StateCluster {
	case "", StateClusterServed:
		if o.HostKubeconfig != "" {
			return nil, errors.New("--host-kubeconfig has no use without --state-cluster=host")
		}
		return &state{live: served.live}, nil
	case StateClusterHost:
		if o.WebhookURL == "" {
			return nil, errors.New("--state-cluster=host needs --webhook-url: the served API server has no Service that leads here")
		}
	default:
		return nil, fmt.Errorf("--state-cluster %q: must be %s or %s", o.StateCluster, StateClusterServed, StateClusterHost)
	}
	cfg, err := hostConfig(o.HostKubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	live, err := client.New(cfg, client.Options{Scheme: NewScheme()})
	if err != nil {
		return nil, err
	}
	if err := checkDistinctClusters(ctx, live, served.live, o.Namespace); err != nil {
		return nil, err
	}
	host, err := cluster.New(cfg, func(c *cluster.Options) {
		c.Scheme = NewScheme()
		c.Cache = cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: ownState(o.Namespace)}
	})
	if err != nil {
		return nil, err
	}
	return &state{live: live, host: host}, nil
}

func hostConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("%w; where Berth is no pod of it, name its kubeconfig by --host-kubeconfig", err)
	}
	return cfg, nil
}

// checkDistinctClusters returns an error if the host cluster is the served cluster. In that case the webhooks would
// match Berth's own namespace like any other, and Berth could block its own start.
func checkDistinctClusters(ctx context.Context, host, served client.Reader, namespace string) error {
	name := client.ObjectKey{Name: namespace}
	hostNamespace, servedNamespace := &corev1.Namespace{}, &corev1.Namespace{}
	if err := host.Get(ctx, name, hostNamespace); err != nil {
		return fmt.Errorf("looking for the own namespace (--namespace): %w", err)
	}
	switch err := served.Get(ctx, name, servedNamespace); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for a namespace %s on the served API server: %w", name.Name, err)
	case hostNamespace.UID == servedNamespace.UID:
		return errors.New("it is the served cluster itself: leave --state-cluster=host out, or name another API server to serve by --kubeconfig")
	}
	return nil
}

// ownState restricts a cache to the ControllerRevisions in Berth's own namespace, because Berth may not read others.
// For Secrets, see newNamedSecret.
func ownState(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&appsv1.ControllerRevision{}: {Namespaces: map[string]cache.Config{namespace: {}}},
	}
}

// stateCluster returns the cluster that contains Berth's own state.
func (b *base) stateCluster() cluster.Cluster {
	if b.state.host != nil {
		return b.state.host
	}
	return b.mgr
}

// leaseConfig returns the configuration for the cluster of the lease, or nil if that is the served cluster.
func (s *state) leaseConfig() *rest.Config {
	if s.host == nil {
		return nil
	}
	return s.host.GetConfig()
}
