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

// clusterField is the field that lists the clusters of a placement object. It is nil for an object of another kind, which has the
// annotation.
type clusterField struct {
	kind *clusterlist.Kind // Where objects of this kind list their clusters.
	// object is the content of the object as it was read. Each list is written into a copy of it, so that clusters that stay keep their place.
	object map[string]any
	list   clusterlist.List // The list in object. If it cannot be read, only Path and Max are set.
	// form is JSON that tells how the object has the list that the developer requested, apart from the names, so that the list can be restored
	// exactly (clusterlist.List.Form).
	form string
	// annotation is the value of the clusters annotation, which means nothing for a placement object; nil if there is none.
	annotation *string
	// err says why the list cannot be read, or the requested one not be restored; nil if they can. Otherwise the list is not written, and the
	// enforced policies that restrict clusters deny the object, except for those that are held.
	err error
}

// readClusters returns the clusterField of a placement object; nil if kind is nil. If the list can't be read, the reason is in its field
// err.
func readClusters(obj *unstructured.Unstructured, kind *clusterlist.Kind) *clusterField {
	if kind == nil {
		return nil
	}
	out := &clusterField{kind: kind, object: obj.Object, annotation: optional(metadataOf(obj, fieldAnnotations),
		placementv1.ClustersAnnotation)}
	out.list, out.err = kind.Read(obj.Object)
	out.form = out.list.Form
	return out
}

// inMetadata returns merged values of a field as they must be in the metadata: for a placement object, the clusters annotation keeps its
// own value. It may return its argument.
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

// place writes the list of clusters into the outcome's object, and sets the outcome's List and, if the list differs, Clusters. text is the
// text of the list; nil if the object names no clusters. It does nothing if c is nil.
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

// with returns a copy of object with the list of clusters set to a text; nil names no clusters. object must differ from c.object only in
// other fields than the list. The error is that the text does not fit the object.
func (c *clusterField) with(object map[string]any, text *string) (map[string]any, error) {
	// Clusters that stay keep their place because they are written into the object as it is.
	written, err := c.kind.Write(c.object, text, c.form)
	if err != nil {
		return nil, err
	}
	return c.kind.Graft(object, written), nil
}

// locations returns where merging reads in the intent's object.
func (i *intent) locations() locations {
	out := locations{podSpec: i.pods.path}
	if i.clusters != nil {
		out.clusters = i.clusters.kind
	}
	return out
}

// setClusters writes the requested list of clusters into the intent's object, if it is a placement object.
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
		c.err = fmt.Errorf("the clusters that the annotation %s records do not fit the object: %w; write the clusters that you request into "+
			"that field", placementv1.RequestedAnnotation, err)
		return
	}
	i.object.Object = object
}

// ClustersIn returns where an object of the outcome's kind lists its clusters, as the field and the key of a Change, and the text of that
// list; nil if there is none.
func (o *Outcome) ClustersIn(obj *unstructured.Unstructured) (field, key string, value *string) {
	if o.List == nil {
		return fieldAnnotations, placementv1.ClustersAnnotation, optional(metadataOf(obj, fieldAnnotations), placementv1.ClustersAnnotation)
	}
	// A list that can't be read is the developer's, which merging has left alone.
	list, _ := o.List.Read(obj.Object)
	return fieldClusters, list.Path, list.Text
}

// ClusterNames returns the names of the clusters that an object of the outcome's kind lists. If the list has several terms, it returns the
// names of all, sorted. It returns none if there is no list, or if the list is not valid.
func (o *Outcome) ClusterNames(obj *unstructured.Unstructured) []string {
	_, _, value := o.ClustersIn(obj)
	return o.NamesIn(value)
}

// NamesIn returns the names of the clusters in a text of the list, as ClustersIn returns it: those of several terms together and sorted,
// and others in the order of the text. It returns none if the text is nil.
func (o *Outcome) NamesIn(value *string) []string {
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
