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

// Package scheduling_test shows where pods run by what policies say of scheduling, on a real API server.
package scheduling_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	pod      = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	job      = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	training = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Training"}
	gadget   = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
)

var f *framework.Framework

// configuration declares where a kind of the suite's own has its pod template.
const configuration = `
apiVersion: config.berth.dev/v1alpha1
kind: ManagerConfiguration
podTemplates:
- group: example.com
  resource: trainings
  kind: Training
  path: .spec.worker.template
`

func TestScheduling(t *testing.T) {
	suite.Run(t, "Scheduling")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallCRD(ctx, framework.NewCRD(training.Group, training.Version, "trainings", training.Kind, apiextensionsv1.NamespaceScoped))
	f.InstallCRD(ctx, framework.NewCRD(gadget.Group, gadget.Version, "gadgets", gadget.Kind, apiextensionsv1.NamespaceScoped))
	path := filepath.Join(GinkgoT().TempDir(), "manager.yaml")
	Expect(os.WriteFile(path, []byte(configuration), 0o600)).To(Succeed())
	operator := f.StartReadyManager(ctx, func(o *setup.Options) { o.Config = path })
	DeferCleanup(operator.Stop)
	f.AwaitValidation(ctx)
})

func disk(value string) string { return fmt.Sprintf(`scheduling.nodeSelector.disk := %q`, value) }

// policy creates a policy on a resource in a namespace and waits until it decides.
func policy(ctx context.Context, text, group, resource, namespace string, tune ...func(*placementv1.PlacementPolicy)) string {
	GinkgoHelper()
	p := framework.NewPolicy(framework.NewName("scheduling"), text, group, resource, namespace)
	for _, t := range tune {
		t(p)
	}
	f.CreateReadyPolicy(ctx, p)
	return p.Name
}

func change(ctx context.Context, name, text string) {
	GinkgoHelper()
	f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = text })
	f.AwaitReady(ctx, name)
}

// newNamespace creates a namespace for a spec, in which pods can be created.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	out := f.NewNamespace(ctx, nil)
	err := f.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: out, Name: "default"}})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	return out
}

// parse reads an object in YAML.
func parse(text string) map[string]any {
	GinkgoHelper()
	var out map[string]any
	Expect(yaml.Unmarshal([]byte(text), &out)).To(Succeed())
	return out
}

// object is one of a kind, with a spec in YAML.
func object(gvk schema.GroupVersionKind, namespace, name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	out := &unstructured.Unstructured{Object: parse(spec)}
	out.SetGroupVersionKind(gvk)
	out.SetNamespace(namespace)
	out.SetName(name)
	return out
}

// at is the value at a path of a stored object, with dots.
func at(ctx context.Context, gvk schema.GroupVersionKind, namespace, name, path string) (any, error) {
	obj, err := f.Get(ctx, gvk, namespace, name)
	if err != nil {
		return nil, err
	}
	value, _, err := unstructured.NestedFieldNoCopy(obj.Object, strings.Split(path, ".")...)
	return value, err
}

// violations are what a policy's status says of its objects.
func violations(ctx context.Context, name string) ([]string, error) {
	p, err := f.Policy(ctx, name)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, v := range p.Status.ViolationSample {
		resource, _, object := v.Object.Parse()
		out = append(out, resource.String()+" "+object+": "+v.Message)
	}
	return out, nil
}
