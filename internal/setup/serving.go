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
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/controllers/webhookconfiguration"
	"github.com/berth-dev/berth/internal/certs"
	"github.com/berth-dev/berth/internal/httpserver"
	"github.com/berth-dev/berth/internal/webhookauth"
)

// serving has the webhook server, and what authenticates it to the API server and the API server to it.
type serving struct {
	// handlers has the webhooks by path, with metrics of their requests. It does not listen itself.
	handlers    webhook.Server
	certificate *certs.Source       // the certificate of the webhook server
	tokens      *webhookauth.Tokens // the tokens in the paths of the webhooks
	// clientCertificates verifies the API server's client certificate; nil if the options require none.
	clientCertificates *webhookauth.ClientCertificates
}

// newServing adds a webhook server to the manager. addWebhooks adds the webhooks to it.
func newServing(base *base) (*serving, error) {
	clientCertificates, err := newClientCertificates(base.options)
	if err != nil {
		return nil, fmt.Errorf("preparing client certificates: %w", err)
	}
	certificate, err := newCertificate(base)
	if err != nil {
		return nil, fmt.Errorf("preparing the webhook's certificate: %w", err)
	}
	tokens, err := newTokens(base)
	if err != nil {
		return nil, fmt.Errorf("preparing the webhooks' tokens: %w", err)
	}
	mux := http.NewServeMux()
	config := serverTLS()
	config.GetCertificate = certificate.GetCertificate
	if clientCertificates != nil {
		clientCertificates.Configure(config)
		if err := base.mgr.Add(clientCertificates); err != nil {
			return nil, err
		}
	}
	server := httpserver.Server{
		Name: "webhooks", Address: net.JoinHostPort(base.options.WebhookHost,
			strconv.Itoa(cmp.Or(base.options.WebhookPort, webhook.DefaultPort))),
		TLS: config, Strangers: webhookStrangers, Handler: mux,
	}
	return &serving{
		handlers: webhook.NewServer(webhook.Options{WebhookMux: mux}), certificate: certificate, tokens: tokens,
		clientCertificates: clientCertificates,
	}, base.mgr.Add(server.Runnable())
}

// Server.Strangers of each port. Together such connections take less than 32 MiB. API servers are known by the token that they send first,
// so the number bounds only how many of their requests may arrive at once on new connections.
const (
	webhookStrangers = 160
	metricsStrangers = 24
	probeStrangers   = 160
)

// serverTLS returns a TLS configuration without a certificate for a server. It does not offer HTTP/2, which would allow many requests on
// each connection.
func serverTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

// newCertificate returns the source of the webhook server's certificate, which is in the Secret certs.SecretName, and adds its controllers
// to the manager.
func newCertificate(base *base) (*certs.Source, error) {
	hosts, err := base.options.hosts()
	if err != nil {
		return nil, err
	}
	external := false
	switch base.options.WebhookCertManagement {
	case "", CertManagementSelf:
	case CertManagementExternal:
		external = true
	default:
		return nil, fmt.Errorf("--webhook-cert-management %q: must be %s or %s", base.options.WebhookCertManagement, CertManagementSelf,
			CertManagementExternal)
	}
	secret, err := newNamedSecret(base, certs.SecretName)
	if err != nil {
		return nil, err
	}
	return certs.Add(base.mgr, secret, certs.Options{
		Namespace: base.options.Namespace, Hosts: hosts, External: external, Overlap: base.options.WebhookCAOverlap,
		Bundles: func(ctx context.Context) ([][]byte, error) {
			return webhookconfiguration.Bundles(ctx, base.mgr.GetClient())
		},
	})
}

// newTokens returns the tokens in the webhooks' paths that authenticate the API server, and adds their controllers to the manager.
func newTokens(base *base) (*webhookauth.Tokens, error) {
	if o := base.options; o.WebhookTokenLifetime != 0 && o.WebhookTokenLifetime < cmp.Or(o.WebhookTokenSettle, time.Minute) {
		return nil, fmt.Errorf("--webhook-token-lifetime %s: must be at least a minute, since replicas and API servers take a while to "+
			"learn a token", o.WebhookTokenLifetime)
	}
	secret, err := newNamedSecret(base, webhookauth.SecretName)
	if err != nil {
		return nil, err
	}
	return webhookauth.Add(base.mgr, secret, webhookauth.Options{
		Namespace: base.options.Namespace, Lifetime: base.options.WebhookTokenLifetime,
		Settle: base.options.WebhookTokenSettle, Overlap: base.options.WebhookTokenOverlap,
		Used: func(ctx context.Context) ([]string, error) {
			return webhookconfiguration.UsedTokens(ctx, base.mgr.GetClient())
		},
		Refused: base.metrics.Unauthenticated,
	})
}

// newClientCertificates returns the verifier of the API server's client certificate; nil if WebhookClientCAFile is empty. Then
// WebhookClientNames must be empty, too.
func newClientCertificates(o Options) (*webhookauth.ClientCertificates, error) {
	if o.WebhookClientCAFile != "" {
		return webhookauth.NewClientCertificates(o.WebhookClientCAFile, o.WebhookClientNames)
	}
	if len(o.WebhookClientNames) > 0 {
		return nil, errors.New("--webhook-client-names has no use without --webhook-client-ca-file")
	}
	return nil, nil
}
