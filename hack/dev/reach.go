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
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
)

const (
	probeName  = "reach.demo.berth.dev"
	probeLabel = "demo.berth.dev/reach"

	// probeTimeout is how long API servers may take to load the probe's webhook configuration.
	probeTimeout = time.Minute
)

// checkReachable returns an error unless the API server can call the webhooks' endpoint. It registers a webhook for
// ConfigMaps with a random label, and creates such a ConfigMap as a server-side dry run, for which the API server calls
// the webhook. It removes the webhook afterwards.
func checkReachable(ctx context.Context, k kubectl, dir string, at endpoint) (err error) {
	called := &atomic.Bool{}
	authority, stop, err := serveProbe(at, called)
	if err != nil {
		return err
	}
	defer stop()
	probe := "berth-demo-" + strings.ToLower(rand.Text())
	file := filepath.Join(dir, "reach.json")
	// The files are not needed after a failure: the error contains the API server's response.
	defer os.Remove(file)
	if err := writeJSON(file, probeConfiguration(probe, at, authority)); err != nil {
		return err
	}
	// Defer the deletion before the creation: after an interruption it is unknown whether the object was created.
	defer func() {
		_, deleteErr := k.get(context.WithoutCancel(ctx), "delete", "--ignore-not-found", "validatingwebhookconfiguration/"+probe)
		err = errors.Join(err, deleteErr)
	}()
	if _, err := k.get(ctx, "create", "-f", file); err != nil {
		return fmt.Errorf("checking whether the API server reaches this machine: %w", err)
	}
	object := filepath.Join(dir, "reach-object.json")
	defer os.Remove(object)
	if err := writeJSON(object, &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: probe, Labels: map[string]string{probeLabel: probe}},
	}); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, pollInterval, probeTimeout, true, func(ctx context.Context) (bool, error) {
		o, err := k.run(ctx, "create", "--dry-run=server", "-f", object)
		switch {
		case err != nil:
			return false, err
		case o.code != 0:
			return false, errors.New(strings.TrimSpace(o.text))
		}
		return called.Load(), nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("the API server does not reach this machine at %s, where it would call the operator's webhooks; nothing was "+
			"installed: %w\nset %s to an address of this machine that the API server reaches. For a cluster in containers that is the gateway of "+
			"their network", at.webhookURL(), err, hostVariable)
	}
	return nil
}

// serveProbe serves a webhook at the endpoint that allows every request and sets called. It serves until stop is
// called. It returns the certificate authority of its certificate.
func serveProbe(at endpoint, called *atomic.Bool) (authority []byte, stop func(), err error) {
	bundle, key, err := cert.GenerateSelfSignedCertKey(at.host, nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(bundle, key)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(at.bind, at.webhookPort))
	if err != nil {
		return nil, nil, fmt.Errorf("listening for the API server: %w", err)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var review admissionv1.AdmissionReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
				http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
				return
			}
			called.Store(true)
			review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
			review.Request = nil
			w.Header().Set("Content-Type", "application/json")
			// Ignore the error: the API server reports a missing response.
			_ = json.NewEncoder(w).Encode(review)
		}),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return bundle, func() { server.Close() }, nil
}

func probeConfiguration(name string, at endpoint, authority []byte) *admissionregistrationv1.ValidatingWebhookConfiguration {
	url := at.webhookURL() + "/reach"
	fail, none, timeout := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(5)
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
		// Use the labels of Berth's own configurations, so that removing those also removes this one after a kill.
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "berth",
			"app.kubernetes.io/managed-by": "berth"}},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         probeName,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{probeLabel: name}},
			FailurePolicy:           &fail,
			SideEffects:             &none,
			TimeoutSeconds:          &timeout,
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func writeJSON(file string, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", file, err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("writing a manifest: %w", err)
	}
	return nil
}
