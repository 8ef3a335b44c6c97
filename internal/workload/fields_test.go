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

package workload_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/workload"
)

// TestPresenceOf checks which fields workloads are said to have.
func TestPresenceOf(t *testing.T) {
	of := func(group, resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
	}
	for resource, fields := range map[schema.GroupVersionResource]map[string]workload.Presence{
		of("apps", "deployments"): {
			"spec.replicas": workload.Always, "spec.template.spec.containers": workload.Always, "spec.template.metadata.labels": workload.Always,
			"spec.strategy.type": workload.Always, "spec.strategy.rollingUpdate": workload.Sometimes, "spec.paused": workload.Sometimes,
			"spec.template.spec.hostNetwork": workload.Sometimes, "spec.template.spec.securityContext": workload.Always,
			"spec.template.spec.securityContext.runAsUser": workload.Sometimes, "spec.template.spec.priorityClassName": workload.Sometimes,
			"spec.template.spec.nodeSelector.pool": workload.Sometimes, "spec.template.metadata.labels.app": workload.Sometimes,
			"spec.replica": workload.Never, "spec.template.labels": workload.Never, "spec.replicas.max": workload.Never,
			"spec.template.spec.containers.image": workload.Unknown, "metadata.creationTimestamp.seconds": workload.Unknown,
		},
		of("apps", "statefulsets"): {"spec.podManagementPolicy": workload.Always, "spec.volumeClaimTemplates": workload.Sometimes},
		of("apps", "daemonsets"):   {"spec.replicas": workload.Never, "spec.template.spec.schedulerName": workload.Always},
		of("apps", "replicasets"):  {"spec.replicas": workload.Always},
		of("batch", "jobs"): {
			"spec.parallelism": workload.Always, "spec.completions": workload.Sometimes, "spec.suspend": workload.Always,
			"spec.template.metadata.labels": workload.Sometimes,
		},
		of("batch", "cronjobs"): {
			"spec.template": workload.Never, "spec.jobTemplate.spec.template.spec.containers": workload.Always,
			"spec.jobTemplate.spec.parallelism": workload.Sometimes, "spec.suspend": workload.Always, "spec.schedule": workload.Always,
		},
		of("", "pods"): {
			"spec.template": workload.Never, "spec.serviceAccountName": workload.Always, "spec.nodeName": workload.Sometimes, "spec.hostNetwork": workload.Sometimes,
		},
		of("", "replicationcontrollers"): {"spec.template.spec.containers": workload.Always},
		of("example.com", "widgets"):     {"spec.template": workload.Unknown},
	} {
		for path, want := range fields {
			if got := workload.PresenceOf(resource, strings.Split(path, ".")); got != want {
				t.Errorf("%s of %s: %d, want %d", path, resource.Resource, got, want)
			}
		}
	}
}
