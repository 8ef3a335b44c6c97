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
	"errors"
	"fmt"
	"net"

	"github.com/KimMachineGun/automemlimit/memlimit"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/berth-dev/berth/internal/console"
)

// runShared serves the console to several users at o.listen, each with the rights of the bearer token in their requests, until the context
// ends. It is an error with --from or --log.
func (o *consoleOptions) runShared(ctx context.Context) error {
	switch {
	case len(o.from) > 0, len(o.logs) > 0:
		return errors.New("--listen shows each user what they may read of the cluster: leave out --from and --log, whose files any user " +
			"could read")
	case (o.certificate == "") != (o.key == ""):
		return errors.New("--serving-certificate and --serving-key need each other: pass both, or none")
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	certificates, err := o.certificates()
	if err != nil {
		return err
	}
	o.limitMemory(memlimit.FromCgroup)
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	p := newPrinter(o.Out)
	p.line("Berth's console listens at %s. It reads the cluster with the bearer token of each request.", listener.Addr())
	if p.err != nil {
		return errors.Join(p.err, listener.Close())
	}
	users := console.NewUsers(func(c *console.Credentials) console.User { return o.user(config, c) })
	server := newServer(ctx, users.Handler())
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificates}
	return serveUntil(ctx, server, func() error { return server.ServeTLS(listener, "", "") })
}

// memoryShare is the fraction of the container's memory limit to which Go's memory limit is set.
const memoryShare = 0.9

// limitMemory sets Go's memory limit to memoryShare of the container's limit, if it has one, unless the environment variable GOMEMLIMIT is
// set.
func (o *consoleOptions) limitMemory(container memlimit.Provider) {
	if _, err := memlimit.Set(memlimit.WithProvider(container), memlimit.WithRatio(memoryShare)); err != nil &&
		!errors.Is(err, memlimit.ErrCgroupsNotSupported) {
		newPrinter(o.ErrOut).line("warning: the container's memory limit can't be read (%v): set GOMEMLIMIT", err)
	}
}

// user returns the functions of the plugin that the console calls for one user. They connect to the API server of config with the
// credentials of the user.
func (o *consoleOptions) user(config *rest.Config, credentials *console.Credentials) console.User {
	// The credentials of the kubeconfig are not those of the user.
	own := rest.AnonymousClientConfig(config)
	own.Wrap(credentials.Wrap)
	out := console.User{Config: o.console()}
	out.Read = func(ctx context.Context) (*console.Reading, error) {
		options, inventories, err := o.settings()
		if err != nil {
			return nil, err
		}
		live, err := o.live(ctx, own, inventories, &options)
		if err != nil {
			return nil, err
		}
		return liveReading(live, options, own.Host), nil
	}
	out.Verify = func(ctx context.Context) (string, error) {
		client, err := kubernetes.NewForConfig(own)
		if err != nil {
			return "", err
		}
		review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			// The API server knows the user, and does not serve the review.
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return review.Status.UserInfo.Username, nil
	}
	return out
}

// certificates returns the function that a TLS server calls for its certificate. It reads the files of --serving-certificate and
// --serving-key for each connection, so that they may be renewed. Without --serving-certificate, it returns one certificate that the
// command has signed itself, even if --serving-key is given.
func (o *consoleOptions) certificates() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if o.certificate != "" {
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.certificate, o.key)
			return &pair, err
		}, nil
	}
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	var others []string
	if host == "" {
		host = "berth-console"
		service := host + "." + o.berthNamespace + ".svc"
		others = []string{service, service + ".cluster.local"}
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey(host, nil, others)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, err
}
