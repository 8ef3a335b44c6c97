package setup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// engines evaluate policies here or elsewhere, as each says.
type engines struct {
	*embedded.Engine
	remote *remote.Engine
}

// Check implements engine.Engine.
func (e engines) Check(m *policy.Module) error {
	if m.Remote != nil {
		return e.remote.Check(m)
	}
	return e.Engine.Check(m)
}

// Prepare implements engine.Engine.
func (e engines) Prepare(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	if m.Remote != nil {
		return e.remote.Prepare(ctx, name, m, b)
	}
	return e.Engine.Prepare(ctx, name, m, b)
}

func (p *parts) addRemote() {
	p.remote = remote.New(remote.Options{
		Secrets:      p.secrets(),
		Policies:     p.registry.InForce,
		AllowSecrets: p.options.AllowRemoteSecrets,
		UserAgent:    "berth/" + Version(),
		Observer: &remoteObserver{
			Remote: p.metrics.Remote, reader: p.mgr.GetClient(), events: p.events,
			changed:   func(policy string) { p.status.Changed(policy) },
			revised:   func() { p.remediation.Revised() },
			recovered: func(policy string) { p.remediation.Recovered(policy) },
		},
	})
	p.registry.Subscribe((&endpoints{metrics: p.metrics.Remote, used: map[string]int{}}).changed)
}

func (p *parts) secrets() ownSecrets {
	return ownSecrets{reader: p.state().GetClient(), namespace: p.options.Namespace}
}

// ownSecrets reads Secrets of the operator's own namespace.
type ownSecrets struct {
	reader    client.Reader
	namespace string
}

// Secret implements remote.Secrets.
func (s ownSecrets) Secret(ctx context.Context, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	if err := s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", s.namespace, name, err)
	}
	if !shown(secret) {
		return nil, fmt.Errorf("the Secret %s/%s is of type %s: engines are shown those of type %s or %s", s.namespace, name, secret.Type, corev1.SecretTypeOpaque, corev1.SecretTypeTLS)
	}
	return secret.Data, nil
}

// shown says whether policies may have a Secret shown to engines: others in the namespace, such as the token of a
// ServiceAccount or a release of Helm's, were not made for that.
func shown(secret *corev1.Secret) bool {
	return secret.Type == "" || secret.Type == corev1.SecretTypeOpaque || secret.Type == corev1.SecretTypeTLS
}
