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
