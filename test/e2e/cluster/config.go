//go:build linux

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

package cluster

// kubeletConfig authorizes every client that reaches the kubelet: only processes of the sandbox do.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://{{.Socket}}
# There is no systemd to ask; and version 1 of control groups still serves.
cgroupDriver: cgroupfs
cgroupRoot: {{.Cgroup}}
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
podLogsDir: {{.Logs}}/pods
volumePluginDir: {{.Dir}}/volume-plugins
readOnlyPort: 0
# Nobody serves names here. Without an address every pod gets an Event that says so.
clusterDomain: cluster.local
clusterDNS: [10.0.0.10]
resolvConf: ""
makeIPTablesUtilChains: false
# Images come from archives; what is collected would not come back. The rest is the machine's own to watch.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}
`

// containerdConfig is of the version that containerd 1.5 up to 2.x read.
const containerdConfig = `version = 2
root = "{{.Dir}}/containerd"
state = "/run/containerd"
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{{.Dir}}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.PauseImage}}"
  # Where the machine lacks CAP_SYS_RESOURCE, a negative one is refused.
  restrict_oom_score_adj = true
  # The machine's profiles are not the node's to load.
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.Plugins}}"
    conf_dir = "{{.Dir}}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{{.Runc}}"
      SystemdCgroup = false
`

const podNetwork = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [{
  "type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "{{.Pods}}"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
`

// proxyConfig leaves the settings of conntrack alone: outside of the machine's first network they can't be changed.
const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: {{.Node}}
clusterCIDR: {{.Pods}}
clientConnection: {kubeconfig: {{.Kubeconfig}}}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`
