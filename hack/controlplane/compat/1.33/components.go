//go:build components

// Package compat pins what the API server of Kubernetes 1.33 is built from.
package compat

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
