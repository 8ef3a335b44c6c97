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

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// fixedPatch is the file with the JSON patch that the fixed webhook returns.
const fixedPatch = "patch.json"

// serveFixed answers every admission request by the JSON patch in dir: the least that a webhook can do. Its server has the
// settings of Berth's. The certificate is in dir.
func serveFixed(ctx context.Context, dir string, port int) error {
	text, err := os.ReadFile(filepath.Join(dir, fixedPatch))
	if err != nil {
		return fmt.Errorf("reading the fixed webhook's patch: %w", err)
	}
	var patch []jsonpatch.Operation
	if err := json.Unmarshal(text, &patch); err != nil {
		return fmt.Errorf("reading the fixed webhook's patch: %w", err)
	}
	server := webhook.NewServer(webhook.Options{
		Host: "127.0.0.1", Port: port, CertDir: dir,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS12
			c.NextProtos = []string{"http/1.1"}
		}},
	})
	server.Register("/", &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Patched("", patch...)
	})})
	return server.Start(ctx)
}

// patchBetween returns the JSON patch that sets the annotations which after has, and before has not or has otherwise.
func patchBetween(before, after []byte) ([]byte, error) {
	var objects [2]metav1.PartialObjectMetadata
	for i, text := range [][]byte{before, after} {
		if err := json.Unmarshal(text, &objects[i]); err != nil {
			return nil, fmt.Errorf("reading what was created: %w", err)
		}
	}
	var patch []jsonpatch.Operation
	for key, value := range objects[1].Annotations {
		if old, ok := objects[0].Annotations[key]; !ok || old != value {
			patch = append(patch, jsonpatch.NewOperation("add", "/metadata/annotations/"+
				strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1"), value))
		}
	}
	return json.Marshal(patch)
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
