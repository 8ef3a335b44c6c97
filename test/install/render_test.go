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

// Package install_test shows that each way to install Berth installs the same, what it is hardened by, that a real API
// server takes it, and that nothing is left when it is removed.
package install_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	root = "../.."
	// namespace is where config/ installs.
	namespace = "berth-system"
)

var scheme = func() *runtime.Scheme {
	out := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(out); err != nil {
			panic(err)
		}
	}
	monitoring := schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}
	out.AddKnownTypeWithName(monitoring.WithKind("ServiceMonitor"), &serviceMonitor{})
	out.AddKnownTypeWithName(monitoring.WithKind("PrometheusRule"), &prometheusRule{})
	return out
}()

// serviceMonitor and prometheusRule are as much of the Prometheus operator's types as Berth uses.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port            string `json:"port"`
			Path            string `json:"path"`
			Scheme          string `json:"scheme"`
			HonorLabels     bool   `json:"honorLabels"`
			Interval        string `json:"interval"`
			BearerTokenFile string `json:"bearerTokenFile"`
			TLSConfig       struct {
				InsecureSkipVerify bool `json:"insecureSkipVerify"`
			} `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object; nothing here changes a copy.
func (m *serviceMonitor) DeepCopyObject() runtime.Object { return new(*m) }

type prometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// DeepCopyObject implements runtime.Object; nothing here changes a copy.
func (r *prometheusRule) DeepCopyObject() runtime.Object { return new(*r) }

// toolPath returns the path of helm, or of a tool of go.tools.mod.
func toolPath(name string) (string, error) {
	toolsMu.Lock()
	defer toolsMu.Unlock()
	if path := tools[name]; path != "" {
		return path, nil
	}
	module := "go.tools.mod"
	if name == "helm" {
		module = "hack/helm/go.mod"
	}
	modfile, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(module)))
	if err != nil {
		return "", err
	}
	out, err := run("", "go", "tool", "-modfile="+modfile, "-n", name)
	if err != nil {
		return "", err
	}
	tools[name] = strings.TrimSpace(out)
	return tools[name], nil
}

var (
	toolsMu sync.Mutex
	tools   = map[string]string{}
)

// run runs a command in a folder, the repository if none is given, and returns its output; the error has what it says.
func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if dir == "" {
		cmd.Dir = root
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// helmTemplate renders the chart.
func helmTemplate(args ...string) (string, error) {
	helm, err := toolPath("helm")
	if err != nil {
		return "", err
	}
	return run("", helm, append([]string{"template", "charts/berth", "--namespace", namespace}, args...)...)
}

func kustomize(path string) (string, error) {
	tool, err := toolPath("kustomize")
	if err != nil {
		return "", err
	}
	return run("", tool, "build", path)
}

// installer makes dist/install.yaml in a copy, so that an existing one stays. It returns its path.
func installer(dir string) (string, error) {
	if err := os.CopyFS(filepath.Join(dir, "config"), os.DirFS(filepath.Join(root, "config"))); err != nil {
		return "", err
	}
	for _, file := range []string{"Makefile", "go.mod", "go.tools.mod", "go.tools.sum"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return "", err
		}
	}
	_, err := run(dir, "make", "build-installer")
	return filepath.Join(dir, "dist", "install.yaml"), err
}

// objects are the objects of a rendering by kind and name.
type objects map[string]client.Object

// decode reads a rendering strictly: what a type does not have is an error.
func decode(rendering string) (objects, error) {
	out := objects{}
	for document := range strings.SplitSeq("\n"+rendering, "\n---") {
		var about metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &about); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if about.Kind == "" {
			// Nothing but comments.
			continue
		}
		key := about.Kind + "/" + about.Name
		o, err := scheme.New(about.GroupVersionKind())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if err := yaml.UnmarshalStrict([]byte(document), o); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if out[key] != nil {
			return nil, fmt.Errorf("%s is there twice", key)
		}
		out[key] = o.(client.Object)
	}
	return out, nil
}

// rendered decodes what a render function returns.
func rendered(t *testing.T, text string, err error) objects {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	out, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("nothing was rendered")
	}
	return out
}

// chart renders the chart as the release berth, with values.
func chart(t *testing.T, values ...string) objects {
	t.Helper()
	text, err := helmTemplate(append([]string{"--name-template", "berth", "--include-crds"}, values...)...)
	return rendered(t, text, err)
}

// the returns the one object of a rendering with a type and a name.
func the[T client.Object](t *testing.T, in objects, key string) T {
	t.Helper()
	out, ok := in[key].(T)
	if !ok {
		t.Fatalf("there is no %s of the type that is wanted, but %T", key, in[key])
	}
	return out
}
