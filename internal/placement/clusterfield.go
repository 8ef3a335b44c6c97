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

package placement

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
)

// A placement object of a multi-cluster system has its clusters in a field of its own instead of the annotation. Merging
// treats the text of that list as the value of the annotation: in an intent and in the record it has the annotation's key. So
// it is narrowed, restored, held, and undone as the annotation is. The annotation itself means nothing on such an
// object, and stays.

// clusterField is the list of clusters in a placement object. A nil clusterField is that of another object.
type clusterField struct {
	kind *clusterlist.Kind
	// object is the object as it is.
	object map[string]any
	list   clusterlist.List
	// form is the form of the requested list.
	form string
	// annotation is the value of the annotation; nil if there is none.
	annotation *string
	// err says why the list cannot be read. The list then counts as absent, and is not written.
	err error
}

func readClusters(obj *unstructured.Unstructured, kind *clusterlist.Kind) *clusterField {
	if kind == nil {
		return nil
	}
	out := &clusterField{kind: kind, object: obj.Object, annotation: optional(metadataOf(obj, fieldAnnotations), placementv1.ClustersAnnotation)}
	out.list, out.err = kind.Read(obj.Object)
	out.form = out.list.Form
	return out
}

// inMetadata returns values of a field as they are in the metadata: with the object's own annotation in place of the
// clusters. It may return its argument.
func (c *clusterField) inMetadata(field string, values map[string]string) map[string]string {
	if c == nil || field != fieldAnnotations {
		return values
	}
	values = maps.Clone(values)
	delete(values, placementv1.ClustersAnnotation)
	if c.annotation != nil {
		values[placementv1.ClustersAnnotation] = *c.annotation
	}
	return values
}

// place sets the clusters of the outcome's object. text is the text of the list; nil if the object names none.
func (c *clusterField) place(out *Outcome, text *string) error {
	if c == nil {
		return nil
	}
	out.List = c.kind
	if c.err != nil {
		return nil
	}
	object, err := c.with(out.Object.Object, text)
	if err != nil {
		return fmt.Errorf("writing the clusters: %w", err)
	}
	out.Object.Object = object
	if !ptr.Equal(c.list.Text, text) {
		out.Clusters = c.kind.Root()
	}
	return nil
}

// with returns a copy of an object that differs from c.object in other fields, with the clusters.
func (c *clusterField) with(object map[string]any, text *string) (map[string]any, error) {
	// Clusters that stay keep their place because they are written into the object as it is.
	written, err := c.kind.Write(c.object, text, c.form)
	if err != nil {
		return nil, err
	}
	return c.kind.Graft(object, written), nil
}

// locations returns where the intent's object has what merging reads.
func (i *intent) locations() locations {
	out := locations{podSpec: i.pods.path}
	if i.clusters != nil {
		out.clusters = i.clusters.kind
	}
	return out
}

// setClusters sets the list of clusters of the requested object to the requested one.
func (i *intent) setClusters() {
	c := i.clusters
	if c == nil || c.err != nil {
		return
	}
	requested := optional(i.wanted[fieldAnnotations], placementv1.ClustersAnnotation)
	if _, applied := i.applied.Annotations[placementv1.ClustersAnnotation]; !applied && ptr.Equal(requested, c.list.Text) {
		return
	}
	object, err := c.with(i.object.Object, requested)
	if err != nil {
		c.err = err
		return
	}
	i.object.Object = object
}

// ClustersIn returns where an object of the outcome's kind lists its clusters, as the field and the key of a Change, and
// the value there; nil if there is none.
func (o *Outcome) ClustersIn(obj *unstructured.Unstructured) (field, key string, value *string) {
	if o.List == nil {
		return fieldAnnotations, placementv1.ClustersAnnotation, optional(metadataOf(obj, fieldAnnotations), placementv1.ClustersAnnotation)
	}
	// A list that can't be read is the developer's, which merging has left alone.
	list, _ := o.List.Read(obj.Object)
	return fieldClusters, list.Path, list.Text
}

// ClusterNames returns the names of the clusters that an object of the outcome's kind lists. Those of several terms are
// joined, and sorted.
func (o *Outcome) ClusterNames(obj *unstructured.Unstructured) []string {
	_, _, value := o.ClustersIn(obj)
	if value == nil {
		return nil
	}
	if o.List == nil {
		names, _ := parseClusterNames(*value)
		return names
	}
	listed, _ := clusterlist.Parse(*value)
	if !listed.Several {
		return slices.Concat(listed.Terms...)
	}
	names, _ := listed.All()
	return names
}
