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

package mistakes_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/mistakes"
)

// fieldManager is the name under which kubectl apply writes.
const fieldManager = "kubectl-client-side-apply"

// applier applies manifests as kubectl apply does. It starts kubectl only where it has to, since the start of a process for each of
// hundreds of manifests takes most of the suite's processor time.
type applier struct {
	f *framework.Framework
	// creator creates objects as kubectl apply does, and collects the warnings of the API server.
	creator client.Client
}

func newApplier(f *framework.Framework) *applier {
	GinkgoHelper()
	config := rest.CopyConfig(f.Config)
	config.WarningHandlerWithContext = warningCollector{}
	c, err := client.New(config, client.Options{Scheme: f.Client.Scheme(), Mapper: f.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	return &applier{f: f, creator: client.WithFieldValidation(c, metav1.FieldValidationStrict)}
}

// byKubectl returns the names of the entries that kubectl applies, whatever they do: with the small budget the first one of each file,
// and all with a larger one.
func byKubectl(entries []mistakes.Entry) map[string]bool {
	out, files := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		if budget.Rounds(1) > 1 || !files[e.File] {
			out[e.Name] = true
		}
		files[e.File] = true
	}
	return out
}

// apply applies a manifest, or tries it with a dry run, and returns what kubectl prints: warnings and errors. With kubectl set, and for a
// manifest that does more than create objects, it runs kubectl.
func (a *applier) apply(ctx context.Context, manifest string, dryRun, kubectl bool) (string, error) {
	var objects []*unstructured.Unstructured
	var err error
	if !kubectl {
		objects, err = a.toCreate(ctx, manifest)
	}
	if kubectl || err != nil {
		args := []string{"apply", "-f", "-"}
		if dryRun {
			args = append(args, "--dry-run=server")
		}
		return a.f.Kubectl(ctx, manifest, args...)
	}
	options := []client.CreateOption{client.FieldOwner(fieldManager)}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	var printed strings.Builder
	var errs []error
	for _, obj := range objects {
		var warnings []string
		err := a.creator.Create(context.WithValue(ctx, warningsKey{}, &warnings), obj, options...)
		for _, warning := range warnings {
			fmt.Fprintln(&printed, "Warning:", warning)
		}
		if err != nil {
			fmt.Fprintln(&printed, err)
			errs = append(errs, err)
		}
	}
	return printed.String(), errors.Join(errs...)
}

// toCreate returns the objects of a manifest, as kubectl apply creates them. It returns an error if a document is no object, or its kind is
// unknown, or an object exists: then kubectl does something else.
func (a *applier) toCreate(ctx context.Context, manifest string) ([]*unstructured.Unstructured, error) {
	objects, err := decode(manifest)
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		mapping, err := a.creator.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, err
		}
		namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
		switch {
		case !namespaced && obj.GetNamespace() != "":
			return nil, fmt.Errorf("%s %s has a namespace", obj.GetKind(), obj.GetName())
		case namespaced && obj.GetNamespace() == "":
			obj.SetNamespace(metav1.NamespaceDefault)
		}
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(gvk)
		switch err := a.creator.Get(ctx, client.ObjectKeyFromObject(obj), stored); {
		case err == nil:
			return nil, fmt.Errorf("%s %s exists", obj.GetKind(), obj.GetName())
		case !apierrors.IsNotFound(err):
			return nil, err
		}
		if err := recordApplied(obj); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// decode returns the objects of a manifest. It returns an error if a document is no object with a kind and a name.
func decode(manifest string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(text, []byte("null")) {
			continue
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(text); err != nil {
			return nil, err
		}
		if obj.GetName() == "" || obj.IsList() {
			return nil, errors.New("a document has no name, or is a list")
		}
		out = append(out, obj)
	}
}

// recordApplied adds the annotation by which a later kubectl apply knows what this one applied.
func recordApplied(obj *unstructured.Unstructured) error {
	annotations, _, err := unstructured.NestedStringMap(obj.Object, "metadata", "annotations")
	if err != nil {
		return err
	}
	text, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(text)
	obj.SetAnnotations(annotations)
	return nil
}

// warningsKey is the key of a request's context for the list that receives the warnings in its response, a *[]string.
type warningsKey struct{}

// warningCollector adds the warnings of a response to the list in the context of the request.
type warningCollector struct{}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (warningCollector) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const miscellaneous = 299
	if list, found := ctx.Value(warningsKey{}).(*[]string); found && code == miscellaneous && text != "" {
		*list = append(*list, text)
	}
}
