//go:build components

// Package compat pins the modules from which the API server of Kubernetes 1.33 is built.
package compat

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
