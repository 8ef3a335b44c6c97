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

// Package bundle_test holds the bundle against what the Operator Lifecycle Manager takes, against config/, from which it
// is made, and against a real API server, where the manager runs with the rights that the bundle gives it.
package bundle_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	root        = "../.."
	packageName = "berth"
)

// csv is as much of operators.coreos.com/v1alpha1 ClusterServiceVersion as a bundle of Berth's may have. OLM drops what
// its own type does not know without a word; these types are written by hand from it, so that a field that is unknown
// fails to be read.
type csv struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec csvSpec `json:"spec"`
}

type csvSpec struct {
	DisplayName    string   `json:"displayName"`
	Description    string   `json:"description"`
	Version        string   `json:"version"`
	Replaces       string   `json:"replaces"`
	Maturity       string   `json:"maturity"`
	MinKubeVersion string   `json:"minKubeVersion"`
	Keywords       []string `json:"keywords"`
	Provider       link     `json:"provider"`
	Links          []link   `json:"links"`
	Maintainers    []struct {
		Name  string `json:"name"`
		Email string `json:"email"`
	} `json:"maintainers"`
	Icon []struct {
		Data      []byte `json:"base64data"`
		MediaType string `json:"mediatype"`
	} `json:"icon"`
	InstallModes []struct {
		Type      string `json:"type"`
		Supported bool   `json:"supported"`
	} `json:"installModes"`
	Definitions struct {
		Owned []ownedKind `json:"owned"`
	} `json:"customresourcedefinitions"`
	RelatedImages []struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	} `json:"relatedImages"`
	Install struct {
		Strategy string `json:"strategy"`
		Spec     struct {
			Deployments        []deployment `json:"deployments"`
			ClusterPermissions []permission `json:"clusterPermissions"`
			Permissions        []permission `json:"permissions"`
		} `json:"spec"`
	} `json:"install"`
}

type link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type ownedKind struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Version     string `json:"version"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
	Resources   []struct {
		Name    string `json:"name"`
		Kind    string `json:"kind"`
		Version string `json:"version"`
	} `json:"resources"`
	SpecDescriptors   []descriptor `json:"specDescriptors"`
	StatusDescriptors []descriptor `json:"statusDescriptors"`
}

type descriptor struct {
	Path        string   `json:"path"`
	DisplayName string   `json:"displayName"`
	Description string   `json:"description"`
	Hints       []string `json:"x-descriptors"`
}

type deployment struct {
	Name  string                `json:"name"`
	Label map[string]string     `json:"label"`
	Spec  appsv1.DeploymentSpec `json:"spec"`
}

type permission struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// bundle is what is in the folder.
type bundle struct {
	csv csv
	// crds and extra are the other manifests, by their file's name.
	crds, extra map[string]*unstructured.Unstructured
}

// load reads the committed bundle.
func load() (*bundle, error) {
	out := &bundle{crds: map[string]*unstructured.Unstructured{}, extra: map[string]*unstructured.Unstructured{}}
	files, err := os.ReadDir(filepath.Join(root, "bundle", "manifests"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		path := filepath.Join(root, "bundle", "manifests", file.Name())
		if strings.HasSuffix(file.Name(), ".clusterserviceversion.yaml") {
			if err := readStrictly(path, &out.csv); err != nil {
				return nil, err
			}
			continue
		}
		o := &unstructured.Unstructured{}
		if err := readStrictly(path, &o.Object); err != nil {
			return nil, err
		}
		if o.GetKind() == "CustomResourceDefinition" {
			out.crds[file.Name()] = o
		} else {
			out.extra[file.Name()] = o
		}
	}
	return out, nil
}

func mustLoad(t *testing.T) *bundle {
	t.Helper()
	b, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readStrictly(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(text, into)
}

// manager returns the one container of the one Deployment.
func (b *bundle) manager(t *testing.T) (deployment, corev1.Container) {
	t.Helper()
	deployments := b.csv.Spec.Install.Spec.Deployments
	if len(deployments) != 1 || len(deployments[0].Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("want one Deployment of one container, got %+v", deployments)
	}
	return deployments[0], deployments[0].Spec.Template.Spec.Containers[0]
}

// services are the Services among the extra objects.
func (b *bundle) services(t *testing.T) map[string]corev1.Service {
	t.Helper()
	out := map[string]corev1.Service{}
	for name, o := range b.extra {
		if o.GetKind() == "Service" {
			var s corev1.Service
			if err := readStrictly(filepath.Join(root, "bundle", "manifests", name), &s); err != nil {
				t.Fatal(err)
			}
			out[s.Name] = s
		}
	}
	return out
}

func sameSet(got, want []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
}
