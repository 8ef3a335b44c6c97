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

// state has the clients of the cluster in which Berth keeps its own state: its Secrets, its lease, and the last versions of policies that
// compiled.
type state struct {
	// live reads and writes without a cache.
	live client.Client
	// host is the host cluster, or nil if the state is in the served cluster.
	host cluster.Cluster
}

// connectState returns the state. It connects to the host cluster if the options say that Berth keeps its state there.
func connectState(ctx context.Context, served *servedCluster, o Options) (*state, error) {
	switch o.StateCluster {
	case "", StateClusterServed:
		if o.HostKubeconfig != "" {
			return nil, errors.New("--host-kubeconfig has no use without --state-cluster=host")
		}
		return &state{live: served.live}, nil
	case StateClusterHost:
		if o.WebhookURL == "" {
			return nil, errors.New("--state-cluster=host needs --webhook-url: the served cluster has no Service for the webhooks")
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

// hostConfig returns the configuration for the host cluster: that of a kubeconfig's path or, if it is "", of the pod that Berth runs in.
func hostConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("%w; if Berth is not a pod of the host cluster, set --host-kubeconfig to its kubeconfig", err)
	}
	return cfg, nil
}

// checkDistinctClusters returns an error if the host cluster is the served cluster, which it sees by the UID of Berth's own namespace. The
// webhooks would then match Berth's own namespace, and Berth could block its own start. It returns nil if the served cluster has no
// namespace of that name, and an error if it can't read one of the two.
func checkDistinctClusters(ctx context.Context, host, served client.Reader, namespace string) error {
	name := client.ObjectKey{Name: namespace}
	hostNamespace, servedNamespace := &corev1.Namespace{}, &corev1.Namespace{}
	if err := host.Get(ctx, name, hostNamespace); err != nil {
		return fmt.Errorf("reading Berth's own namespace %s (--namespace): %w", namespace, err)
	}
	switch err := served.Get(ctx, name, servedNamespace); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("checking whether the served API server has a namespace %s: %w", namespace, err)
	case hostNamespace.UID == servedNamespace.UID:
		return errors.New("the host cluster is the served cluster itself: omit --state-cluster=host, or name another API server to serve by " +
			"--kubeconfig")
	}
	return nil
}

// ownState returns cache options that limit the cache to the ControllerRevisions in Berth's own namespace, because Berth may not read
// others. For Secrets, see newNamedSecret.
func ownState(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&appsv1.ControllerRevision{}: {Namespaces: map[string]cache.Config{namespace: {}}},
	}
}

// stateCluster returns the cluster in which Berth keeps its own state.
func (b *base) stateCluster() cluster.Cluster {
	if b.state.host != nil {
		return b.state.host
	}
	return b.mgr
}

// leaseConfig returns the configuration for the cluster that has the lease; nil if that is the served cluster.
func (s *state) leaseConfig() *rest.Config {
	if s.host == nil {
		return nil
	}
	return s.host.GetConfig()
}
