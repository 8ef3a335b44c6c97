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

// ClientCertificates require certificates of the webhook server's clients. They are safe for concurrent use.
type ClientCertificates struct {
	authorities *dynamiccertificates.DynamicFileCAContent
	names       []string
}

// NewClientCertificates has clients present a certificate that one of the authorities in a PEM file signed, for one of the
// names, its common name or a DNS name; for any if there are none. The file is read again when it changes.
func NewClientCertificates(file string, names []string) (*ClientCertificates, error) {
	authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("webhook-clients", file)
	if err != nil {
		return nil, fmt.Errorf("reading the authorities of the webhooks' clients: %w", err)
	}
	return &ClientCertificates{authorities: authorities, names: names}, nil
}

// Configure has a server's configuration require the certificates.
func (c *ClientCertificates) Configure(config *tls.Config) {
	config.ClientAuth = tls.RequireAndVerifyClientCert
	// A session that is resumed would outlive a change of the authorities.
	config.SessionTicketsDisabled = true
	config.VerifyConnection = c.verify
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, ok := c.authorities.VerifyOptions()
		if !ok {
			return nil, errors.New("no authority of the webhooks' clients is loaded")
		}
		out := config.Clone()
		out.GetConfigForClient, out.ClientCAs = nil, options.Roots
		return out, nil
	}
}

// verify checks the name, after the chain was verified.
func (c *ClientCertificates) verify(state tls.ConnectionState) error {
	if len(state.VerifiedChains) == 0 {
		return errors.New("no verified client certificate")
	}
	leaf := state.VerifiedChains[0][0]
	if len(c.names) > 0 && !slices.ContainsFunc(namesOf(leaf), func(name string) bool { return slices.Contains(c.names, name) }) {
		return fmt.Errorf("the client certificate is for %q, which --webhook-client-names does not have", leaf.Subject.CommonName)
	}
	return nil
}

func namesOf(c *x509.Certificate) []string {
	return append([]string{c.Subject.CommonName}, c.DNSNames...)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (*ClientCertificates) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it follows the file.
func (c *ClientCertificates) Start(ctx context.Context) error {
	c.authorities.Run(ctx, 1)
	return nil
}
