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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/podscheduling"
)

// ObjectRecord is what the record in an object says. The record is not verified: any client that may write the object may have written it.
type ObjectRecord struct {
	// Values are the values that policies set.
	Values []Recorded `json:"values,omitempty"`
	// CopiedFrom names the controller of the object, such as "Deployment web", if the record is a copy of the controller's; Values is then
	// empty. Otherwise it is "".
	CopiedFrom string `json:"copiedFrom,omitempty"`
	// Unreadable reports whether the object has a record that can't be read.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Recorded says that a policy set a value in an object, according to the object's record, which value the object has now, and which one the
// developer requested.
type Recorded struct {
	Field string `json:"field"` // The part of the object, as in Change.
	Key   string `json:"key"`   // The key in that part, as in Change.
	// Policy is the name of the policy that set the value; "" if the record does not name it.
	Policy string `json:"policy,omitempty"`
	// Current is the value in the object; nil if there is none. For an affinity, it is the policy's addition.
	Current *string `json:"current"`
	// Requested is the value that the developer requested; nil if there is none. For an affinity, it is the developer's complete affinity.
	Requested *string `json:"requested"`
	// Changed reports whether another client has changed the value since the policy set it. The current value then counts as requested.
	Changed bool `json:"changed,omitempty"`
	// Unknown says why the current value can't be read, so that Current says nothing; "" if it can be read.
	Unknown string `json:"unknown,omitempty"`
}

// RecordedIn returns what the record of an object says; the zero value if there is no record. For a record that can't be read, it sets only
// Unreadable; for a copy of a controller's record, only CopiedFrom. podSpec is the path of the object's pod spec; nil if it has none.
// clusters says where a placement object lists its clusters; nil for other objects.
func RecordedIn(obj *unstructured.Unstructured, podSpec []string, clusters *clusterlist.Kind) ObjectRecord {
	if _, there := metadataOf(obj, fieldAnnotations)[placementv1.RequestedAnnotation]; !there {
		return ObjectRecord{}
	}
	resource, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	if controller := metav1.GetControllerOfNoCopy(obj); controller != nil && HoldsRecordCopies(resource.GroupResource()) {
		return ObjectRecord{CopiedFrom: controller.Kind + " " + controller.Name}
	}
	r := NewTrustingKeyring().read(obj, identityOf(obj, obj.GetNamespace()))
	if r == nil {
		return ObjectRecord{Unreadable: true}
	}
	i := intentOf(obj, locations{podSpec: podSpec, clusters: clusters}, sources{records: []*record{r}})
	var out ObjectRecord
	for _, field := range fields {
		entries := r.of(field)
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			out.Values = append(out.Values, i.recordedValue(r, field, key, entries[key]))
		}
	}
	return out
}

// recordedValue returns the Recorded for an entry of the object's record.
func (i *intent) recordedValue(r *record, field, key string, entry overwritten) Recorded {
	out := Recorded{Field: field, Key: key, Policy: entry.By, Requested: entry.Requested}
	if i.clusters != nil && field == fieldAnnotations && key == placementv1.ClustersAnnotation {
		out.Field, out.Key = fieldClusters, i.clusters.list.Path
	}
	requested := key
	if field == fieldScheduling && podscheduling.IsContribution(key) {
		requested = podscheduling.Affinity
		if r.Affinity != nil {
			out.Requested = r.Affinity.Requested
		}
	}
	if err := i.unreadable(r, field, key); err != nil {
		out.Unknown = err.Error()
		return out
	}
	_, applied := i.applied.of(field)[key]
	out.Current, out.Requested, out.Changed = optional(i.current[field], key), optional(i.wanted[field], requested), !applied
	return out
}

// unreadable returns why the value of an entry of the object's record can't be read in the object; nil if it can. Only scheduling values
// and the list of clusters of a placement object may be unreadable: it is not known where the object's kind has them, or they can't be
// decoded.
func (i *intent) unreadable(r *record, field, key string) error {
	switch {
	case field == fieldScheduling && len(i.pods.path) == 0:
		return fmt.Errorf("it is not known where objects of kind %s have their pod spec: the manager's configuration has to say it, under "+
			"podTemplates", i.object.GetKind())
	case field == fieldScheduling:
		return i.pods.err
	case field != fieldAnnotations || key != placementv1.ClustersAnnotation:
		return nil
	case i.clusters == nil && r.Form != "":
		return fmt.Errorf("it is not known where objects of kind %s list clusters: the manager's configuration has to say it, under "+
			"placements", i.object.GetKind())
	case i.clusters == nil:
		return nil
	}
	return i.clusters.err
}
