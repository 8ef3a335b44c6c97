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
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// namedSecret is the cluster in which Berth keeps its own state, with a cache that has a single Secret. Berth lists and watches Secrets
// only by name, because OLM converts permissions in Berth's own namespace to permissions in all namespaces.
type namedSecret struct {
	cluster.Cluster
	cache  cache.Cache   // has only the Secret
	client client.Client // reads the Secret from the cache, and writes to the API server
}

// GetCache returns the cache with the Secret. It implements cluster.Cluster.
func (s *namedSecret) GetCache() cache.Cache { return s.cache }

// GetClient returns a client that reads the Secret from the cache, and writes to the API server. It implements cluster.Cluster.
func (s *namedSecret) GetClient() client.Client { return s.client }

// Start runs the cache until ctx ends. It implements manager.Runnable.
func (s *namedSecret) Start(ctx context.Context) error { return s.cache.Start(ctx) }

// newNamedSecret returns a cluster whose cache has one Secret in Berth's own namespace, and adds it to the manager.
func newNamedSecret(base *base, name string) (cluster.Cluster, error) {
	state := base.stateCluster()
	o := cache.Options{
		HTTPClient: state.GetHTTPClient(), Scheme: state.GetScheme(), Mapper: state.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{
			base.options.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", name)},
		}}},
	}
	out := &namedSecret{Cluster: state}
	var err error
	if out.cache, err = cache.New(state.GetConfig(), o); err != nil {
		return nil, fmt.Errorf("creating a cache of Secret %s/%s: %w", base.options.Namespace, name, err)
	}
	out.client, err = client.New(state.GetConfig(), client.Options{
		HTTPClient: state.GetHTTPClient(), Scheme: state.GetScheme(), Mapper: state.GetRESTMapper(),
		Cache: &client.CacheOptions{Reader: out.cache},
	})
	if err != nil {
		return nil, fmt.Errorf("creating a client for Secret %s/%s: %w", base.options.Namespace, name, err)
	}
	return out, base.mgr.Add(out)
}

const (
	// secretMaxAge is how long a Secret is used before it is read again. It limits the reads for a busy policy. It is not
	// longer than the default delay after which an engine that refused credentials is first retried.
	secretMaxAge = 100 * time.Millisecond
	// secretTimeout is the timeout of a read.
	secretTimeout = 5 * time.Second
	// secretRetention is the time after which an unused Secret is removed from memory.
	secretRetention = 10 * time.Minute
)

// engineSecrets reads the Secrets in Berth's own namespace that policies name for remote engines. It reads each by name and without a
// watch, so it needs no permission but "get" on the names. It is safe for concurrent use.
type engineSecrets struct {
	reader    client.Reader // reads without a cache
	namespace string
	clock     clock.PassiveClock
	flights   singleflight.Group // joins concurrent reads of one Secret

	mu   sync.Mutex
	read map[string]cachedSecret // the last read of each Secret, by name
}

// cachedSecret is what is known of a Secret after the last read.
type cachedSecret struct {
	at   time.Time         // the time of the last read, also of one that failed
	data map[string][]byte // the data of the Secret, of an earlier read if the last one failed; nil with err
	err  error             // why the Secret could not be read, or its type may not be sent to engines; nil with data
}

// newEngineSecrets returns an engineSecrets that reads by reader in a namespace.
func newEngineSecrets(reader client.Reader, namespace string, c clock.PassiveClock) *engineSecrets {
	return &engineSecrets{reader: reader, namespace: namespace, clock: c, read: map[string]cachedSecret{}}
}

// Secret returns the data of the Secret of a name, from a read that is at most secretMaxAge old or, if the API server is unavailable, from
// the last read that succeeded. It returns an error if Berth may not send the Secret to engines. It implements opaclient.Secrets.
func (s *engineSecrets) Secret(ctx context.Context, name string) (map[string][]byte, error) {
	if known, ok := s.known(name); ok && s.clock.Since(known.at) < secretMaxAge {
		return known.data, known.err
	}
	flight := s.flights.DoChan(name, func() (any, error) {
		// All waiting callers share the result, so the read must not end with the first caller's request.
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), secretTimeout)
		defer cancel()
		return s.refresh(reading, name), nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("reading Secret %s/%s: %w", s.namespace, name, context.Cause(ctx))
	case done := <-flight:
		result, _ := done.Val.(cachedSecret)
		return result.data, result.err
	}
}

// known returns the last read of a Secret; false if there is none.
func (s *engineSecrets) known(name string) (cachedSecret, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, ok := s.read[name]
	return out, ok
}

// refresh reads a Secret, and keeps the result. If the API server is unavailable, the result has the data of the read before, if that had
// any.
func (s *engineSecrets) refresh(ctx context.Context, name string) cachedSecret {
	next, answered := s.get(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.read[name]; !answered && before.data != nil {
		next.data, next.err = before.data, nil
	}
	maps.DeleteFunc(s.read, func(_ string, r cachedSecret) bool { return next.at.Sub(r.at) > secretRetention })
	s.read[name] = next
	return next
}

// get reads a Secret. answered reports whether the result is certain: the Secret, that it does not exist, or that Berth may not read it.
func (s *engineSecrets) get(ctx context.Context, name string) (out cachedSecret, answered bool) {
	secret := &corev1.Secret{}
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, secret)
	out.at = s.clock.Now()
	switch {
	case err != nil:
		out.err = fmt.Errorf("reading Secret %s/%s: %w", s.namespace, name, err)
	case !sendable(secret):
		out.err = fmt.Errorf("the Secret %s/%s is of type %s: engines get only those of type %s or %s",
			s.namespace, name, secret.Type, corev1.SecretTypeOpaque, corev1.SecretTypeTLS)
	default:
		out.data = secret.Data
	}
	return out, err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}

// sendable reports whether Berth may send a Secret to remote engines: one of type Opaque, which "" means, too, or kubernetes.io/tls. Others
// in the namespace, such as the token of a ServiceAccount or a Helm release, are not meant for that.
func sendable(secret *corev1.Secret) bool {
	return secret.Type == "" || secret.Type == corev1.SecretTypeOpaque || secret.Type == corev1.SecretTypeTLS
}
