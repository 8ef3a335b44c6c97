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

// Package cluster runs a real Kubernetes cluster of several nodes on one Linux machine, without a container engine:
// what controlplane runs, and for each node a kubelet, containerd and kube-proxy.
//
// Isolate moves the whole test process into namespaces of its own: network, mounts, processes, IPC and host name. There
// a bridge stands for the network between the machines; the control plane is on this side of it, and each node is one
// more set of namespaces on the other. So the machine itself sees nothing of it but processes and control groups, runs
// beside each other don't meet, and all of it ends with the first process, whatever ends that one.
//
// It needs root, and programs that Isolate names where they are missing. NetworkPolicies are not enforced.
package cluster
