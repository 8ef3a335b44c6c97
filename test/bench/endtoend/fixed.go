package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// fixedAnnotation is what the fixed webhook sets.
const fixedAnnotation = "example.com/placed"

// serveFixed answers every admission request by the same JSON patch: the least that a webhook can do. Its server has the
// settings of Berth's. The certificate is in dir.
func serveFixed(ctx context.Context, dir string, port int) error {
	server := webhook.NewServer(webhook.Options{
		Host: "127.0.0.1", Port: port, CertDir: dir,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS12
			c.NextProtos = []string{"http/1.1"}
		}},
	})
	server.Register("/", &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Patched("", jsonpatch.NewOperation("add", "/metadata/annotations/example.com~1placed", "here"))
	})})
	return server.Start(ctx)
}

// writeCertificate makes a certificate of localhost in dir and returns the authority to trust.
func writeCertificate(dir string) ([]byte, error) {
	bundle, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making the fixed webhook's certificate: %w", err)
	}
	for name, text := range map[string][]byte{"tls.crt": bundle, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, fmt.Errorf("writing the fixed webhook's certificate: %w", err)
		}
	}
	return bundle, nil
}
