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

package webhookauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// ClientCertificates verifies the certificates of the webhook server's clients, which are API servers: by the authorities in a file, and by
// the names that are accepted. It is safe for concurrent use.
type ClientCertificates struct {
	authorities *dynamiccertificates.DynamicFileCAContent // the certificates in the PEM file
	// names are the accepted names, of which a certificate must have one as its common name or as a DNS name; any if empty.
	names []string
}

// NewClientCertificates returns a verifier of client certificates. A certificate must be signed by one of the
// authorities in a PEM file. Its common name or a DNS name must be one of names; if names is empty, any name is
// accepted. The file is read again when it changes.
func NewClientCertificates(file string, names []string) (*ClientCertificates, error) {
	authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("webhook-clients", file)
	if err != nil {
		return nil, fmt.Errorf("reading --webhook-client-ca-file: %w", err)
	}
	return &ClientCertificates{authorities: authorities, names: names}, nil
}

// Configure makes a server's configuration require and verify client certificates: each new connection needs one that the authorities, as
// they are then, signed for an accepted name. Sessions can't be resumed.
func (c *ClientCertificates) Configure(config *tls.Config) {
	config.ClientAuth = tls.RequireAndVerifyClientCert
	// A resumed session would outlive a change of the authorities.
	config.SessionTicketsDisabled = true
	config.VerifyConnection = c.verify
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, ok := c.authorities.VerifyOptions()
		if !ok {
			return nil, errors.New("--webhook-client-ca-file has no valid certificate")
		}
		out := config.Clone()
		out.GetConfigForClient, out.ClientCAs = nil, options.Roots
		return out, nil
	}
}

// verify returns an error if the client certificate has none of the accepted names, or there is no verified certificate. Without accepted
// names, any name will do. crypto/tls has verified the chain before.
func (c *ClientCertificates) verify(state tls.ConnectionState) error {
	if len(state.VerifiedChains) == 0 {
		return errors.New("the client presented no valid certificate")
	}
	leaf := state.VerifiedChains[0][0]
	if len(c.names) > 0 && !slices.ContainsFunc(namesOf(leaf), func(name string) bool { return slices.Contains(c.names, name) }) {
		return fmt.Errorf("the client certificate has the names %q, of which none is in --webhook-client-names", namesOf(leaf))
	}
	return nil
}

// namesOf returns the common name of a certificate, which may be "", and then its DNS names.
func namesOf(c *x509.Certificate) []string {
	return append([]string{c.Subject.CommonName}, c.DNSNames...)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. It returns false because every replica serves webhooks.
func (*ClientCertificates) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It reloads the file of the authorities when it changes, until ctx ends. The authorities stay as they
// are if the file can't be read or has no certificate.
func (c *ClientCertificates) Start(ctx context.Context) error {
	c.authorities.Run(ctx, 1)
	return nil
}
