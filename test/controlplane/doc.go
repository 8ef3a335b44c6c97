// Package controlplane runs a real control plane for tests, the demo and the development cluster: etcd and
// kube-apiserver through envtest, and what envtest has not, kube-controller-manager and kube-scheduler. There are no
// nodes: pods are created and stay Pending.
package controlplane
