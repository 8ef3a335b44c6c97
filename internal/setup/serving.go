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

// serving is the webhook server, with what it and the API server authenticate each other by.
type serving struct {
	// handlers has the webhooks by path. It measures them, and does not serve.
	handlers    webhook.Server
	certificate *certs.Source
	tokens      *webhookauth.Tokens
	// clientCertificates verifies the API server's client certificate. It is nil unless the options require one.
	clientCertificates *webhookauth.ClientCertificates
}

// newServing returns a webhook server without webhooks.
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
		Name: "webhooks", Address: net.JoinHostPort(base.options.WebhookHost, strconv.Itoa(cmp.Or(base.options.WebhookPort, webhook.DefaultPort))),
		TLS: config, Strangers: webhookStrangers, Handler: mux,
	}
	return &serving{
		handlers: webhook.NewServer(webhook.Options{WebhookMux: mux}), certificate: certificate, tokens: tokens, clientCertificates: clientCertificates,
	}, base.mgr.Add(server.Runnable())
}

// How many clients may be connected to each port that are not known. Together they take less than 32 MiB. API servers are known by the
// token that they send first, so the number bounds only how many requests may arrive at once on new connections.
const (
	webhookStrangers = 160
	metricsStrangers = 24
	probeStrangers   = 160
)

// serverTLS returns the configuration of TLS for a server without its certificate. HTTP/2 would allow many requests for each connection.
func serverTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

// newCertificate prepares the certificate of the webhook server, which comes from a Secret.
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
		return nil, fmt.Errorf("--webhook-cert-management %q: must be %s or %s", base.options.WebhookCertManagement, CertManagementSelf, CertManagementExternal)
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

// newTokens prepares the token in the webhooks' paths that authenticates the API server.
func newTokens(base *base) (*webhookauth.Tokens, error) {
	if o := base.options; o.WebhookTokenLifetime != 0 && o.WebhookTokenLifetime < cmp.Or(o.WebhookTokenSettle, time.Minute) {
		return nil, fmt.Errorf("--webhook-token-lifetime %s: must be at least a minute, since replicas and API servers take a while to learn a token",
			o.WebhookTokenLifetime)
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

// newClientCertificates returns the verification of the API server's client certificate, or nil if it is not enabled.
func newClientCertificates(o Options) (*webhookauth.ClientCertificates, error) {
	if o.WebhookClientCAFile != "" {
		return webhookauth.NewClientCertificates(o.WebhookClientCAFile, o.WebhookClientNames)
	}
	if len(o.WebhookClientNames) > 0 {
		return nil, errors.New("--webhook-client-names has no use without --webhook-client-ca-file")
	}
	return nil, nil
}
