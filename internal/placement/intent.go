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
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/podscheduling"
)

// The parts of an object that decisions are merged into.
const (
	fieldAnnotations = "annotations"
	fieldLabels      = "labels"
	fieldScheduling  = "scheduling"
	// fieldClusters is the field of changes of the clusters in a placement object. They are merged as if they were the
	// annotation with the clusters, and their key is the path of the list; see clusterField.
	fieldClusters = "clusters"
)

// fields are all parts of an object that decisions are merged into, in the order in which changes are reported. The list of clusters of a
// placement object is merged as an annotation.
var fields = []string{fieldAnnotations, fieldLabels, fieldScheduling}

// record is stored in an annotation of an object. For each key that a policy overwrote, it keeps the value that the developer requested.
//
// During an upgrade from v0.1.0 or later, and after a rollback, replicas of several versions read and write records at the same time. So
// the fields that Signature covers are frozen: replicas of every version compute the signature from exactly these, and drop other members.
// New fields go into the extension.
type record struct {
	// Annotations are the entries of annotations that policies overwrote, by key.
	Annotations map[string]overwritten `json:"annotations,omitempty"`
	// Labels are the entries of labels that policies overwrote, by key.
	Labels map[string]overwritten `json:"labels,omitempty"`
	// Scheduling are the entries of scheduling values that policies overwrote, by merge key (package podscheduling).
	Scheduling map[string]overwritten `json:"scheduling,omitempty"`
	// Affinity is the entry of the complete affinity of the pods; nil if no policy added to it. Scheduling has the addition of each policy.
	Affinity *overwritten `json:"affinity,omitempty"`
	// Signature is an HMAC of Annotations, Labels, Scheduling, Affinity, and the object's identity. So a record is not valid on another
	// object, and only holders of the key can create one.
	Signature string `json:"signature,omitempty"`
	extended
}

// extension holds the fields of a record that Signature does not cover: which clusters each policy allows, the form of the developer's list
// of clusters, and digests of the values that policies set earlier. Its own signature is beside it. A record that needs none of these has
// no extension. A client may also remove the extension, after which the rest of the record is still valid.
type extension struct {
	// Clusters are the names of the clusters that each policy allows, by policy name. It is nil if the only policy is the one in the entry
	// of the clusters annotation, and allows exactly the clusters in that annotation.
	Clusters map[string][]string `json:"clusters,omitempty"`
	// Form is JSON that tells how a placement object has the list of clusters that the developer requested, apart from the names, so that the
	// list can be restored exactly (clusterlist.List.Form). It is "" for other objects.
	Form string `json:"form,omitempty"`
	// Earlier are the values of labels and annotations that policies set and no longer set, without those that the developer requests.
	Earlier earlierValues `json:"earlier,omitempty"`
	// EarlierScheduling are the scheduling values that policies set and no longer set, without those that the developer requests.
	EarlierScheduling earlierValues `json:"earlierScheduling,omitempty"`
}

// extended is an extension with its encoding in the annotation.
type extended struct {
	extension `json:"-"`
	// Text is the JSON of the extension. TextSignature is verified over this text as it was written, so that replicas accept an extension
	// with members that they do not know.
	Text json.RawMessage `json:"extension,omitempty"`
	// TextSignature is an HMAC of Text and the record's Signature, so that an extension is not valid with another record.
	TextSignature string `json:"extensionSignature,omitempty"`
}

// overwritten is the entry of a record for one key that a policy overwrote: the requested value, the policy, and a digest of its value.
// Which clusters each policy allows is not in it.
type overwritten struct {
	// Requested is the value that the developer requested; nil if the developer did not set the key.
	Requested *string `json:"requested,omitempty"`
	// By is the name of the policy that overwrote the value: of several that give the clusters, the first by precedence. It is "" if that is
	// not known, as for a value that a policy set earlier.
	By string `json:"by,omitempty"`
	// Set is the digest of the value that the policy set. If the object has another value by now, another client has changed it since, and
	// that value counts as requested.
	Set string `json:"set"`
	// Value is the value that the policy set, where it cannot be read from the object: its addition to the affinity.
	Value *string `json:"value,omitempty"`
}

// of returns the entries of a field by key; nil if r is nil.
func (r *record) of(field string) map[string]overwritten {
	if r == nil {
		return nil
	}
	return *r.entries(field)
}

// entries returns a pointer to the entries of a field: labels, scheduling, or, for any other field, annotations.
func (r *record) entries(field string) *map[string]overwritten {
	switch field {
	case fieldLabels:
		return &r.Labels
	case fieldScheduling:
		return &r.Scheduling
	default:
		return &r.Annotations
	}
}

// put sets the entry of a key.
func (r *record) put(field, key string, entry overwritten) {
	target := r.entries(field)
	if *target == nil {
		*target = map[string]overwritten{}
	}
	(*target)[key] = entry
}

// empty reports whether the record has neither entries nor earlier values.
func (r *record) empty() bool {
	return len(r.Annotations) == 0 && len(r.Labels) == 0 && len(r.Scheduling) == 0 && r.Earlier == "" && r.EarlierScheduling == ""
}

// schedules reports whether the record has scheduling values that policies set, now or earlier. It returns false for nil.
func (r *record) schedules() bool {
	return r != nil && (len(r.Scheduling) > 0 || r.EarlierScheduling != "")
}

// Keyring signs and verifies records. The zero value has no key: it cannot sign and trusts no record.
type Keyring struct {
	key []byte // The secret key; nil for none.
	// unverified is set if the keyring trusts every record.
	unverified bool
}

// KeySize is the length of a signing key in bytes.
const KeySize = 32

// NewKeyring returns a keyring with a secret key of KeySize bytes. All replicas must share the key, and it must survive restarts: records
// that were signed with another key are ignored.
func NewKeyring(key []byte) (*Keyring, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("the signing key has %d bytes, and must have %d", len(key), KeySize)
	}
	return &Keyring{key: key}, nil
}

// NewUnverifiedKeyring returns a keyring that trusts every record and cannot sign any. Administrators use it to undo
// placements after the key was deleted; see Decider.Undo.
func NewUnverifiedKeyring() *Keyring { return &Keyring{unverified: true} }

// NewTrustingKeyring returns a keyring for users who can't read the secret key. It trusts every record, and signs with a key that no other
// process has. A record that it signs is for comparison only, and must not be written to a cluster.
//
// A ReplicaSet that has a controller usually has a copy of the controller's record, so this keyring ignores its record.
func NewTrustingKeyring() *Keyring {
	key := make([]byte, KeySize)
	// Read never returns an error.
	_, _ = rand.Read(key)
	return &Keyring{key: key, unverified: true}
}

// identity identifies the object that a record belongs to by its group, kind, namespace, and name, not by its UID. All versions of a
// kind have the same identity.
type identity struct {
	Group, Kind, Namespace string
	// Name is the object's name; "" until the API server has generated one from GenerateName. GenerateName is "" if Name is set.
	Name, GenerateName string
}

// identityOf returns the identity of an object in a namespace.
func identityOf(obj *unstructured.Unstructured, namespace string) identity {
	gvk := obj.GroupVersionKind()
	id := identity{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: obj.GetName()}
	if id.Name == "" {
		id.GenerateName = obj.GetGenerateName()
	}
	return id
}

// sign returns the signature of a record for an object. It returns an error if the keyring has no key.
func (k *Keyring) sign(r record, id identity) (string, error) {
	if len(k.key) == 0 {
		return "", errors.New("no signing key")
	}
	r.Signature, r.extended = "", extended{}
	return k.mac(struct {
		ID     identity
		Record record
	}{id, r})
}

// signExtension returns the signature that binds the record's extension to the record's signature. It does not check that the keyring has a
// key.
func (k *Keyring) signExtension(r record) (string, error) {
	return k.mac(struct{ Extension, Of string }{string(r.Text), r.Signature})
}

// mac returns the HMAC of a value's JSON, in base64. The only error is that the value cannot be encoded: mac does not check that the
// keyring has a key. Values of different types must differ in the name of their first member, so that their signatures cannot be confused.
func (k *Keyring) mac(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding record: %w", err)
	}
	mac := hmac.New(sha256.New, k.key)
	mac.Write(text)
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// read returns the record of an object; nil if the object has none, or none that the keyring trusts for the identity.
func (k *Keyring) read(obj *unstructured.Unstructured, id identity) *record {
	if obj == nil || k.unverified && len(k.key) > 0 && id.Group == appsv1.GroupName && id.Kind == "ReplicaSet" &&
		metav1.GetControllerOfNoCopy(obj) != nil {
		return nil
	}
	r := decodeRecord(obj)
	if r == nil {
		return nil
	}
	if k.unverified {
		r.extension = decodeExtension(r.Text)
		if len(k.key) == 0 {
			r.Clusters = nil
		}
		return r
	}
	want, err := k.sign(*r, id)
	if err != nil || !hmac.Equal([]byte(want), []byte(r.Signature)) {
		return nil
	}
	r.extension = k.readExtension(*r)
	return r
}

// decodeRecord returns the record of an object, without verifying it, and without its extension; nil if there is none.
func decodeRecord(obj *unstructured.Unstructured) *record {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", fieldAnnotations, placementv1.RequestedAnnotation)
	text, ok := value.(string)
	if !ok || len(text) > apivalidation.TotalAnnotationSizeLimitB {
		// The API server stores no annotations of this size, so no replica signed this record.
		return nil
	}
	var r record
	if json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	return &r
}

// readExtension returns the extension of a verified record; an empty one if the record has none, or its signature is invalid.
func (k *Keyring) readExtension(r record) extension {
	if len(r.Text) == 0 {
		return extension{}
	}
	want, err := k.signExtension(r)
	if err != nil || !hmac.Equal([]byte(want), []byte(r.TextSignature)) {
		return extension{}
	}
	return decodeExtension(r.Text)
}

// decodeExtension returns the extension with a JSON text; an empty one if the text is not valid.
func decodeExtension(text json.RawMessage) extension {
	var out extension
	if json.Unmarshal(text, &out) != nil {
		return extension{}
	}
	return out
}

// readStored returns the record of an object that the API server has stored; nil if it has none that the keyring trusts. It accepts a
// record that was signed before the object had a name. read does not, because a client could send the record of another object with the
// same generateName.
func (k *Keyring) readStored(obj *unstructured.Unstructured, id identity) *record {
	r := k.read(obj, id)
	if r == nil && obj != nil && obj.GetGenerateName() != "" {
		id.Name, id.GenerateName = "", obj.GetGenerateName()
		r = k.read(obj, id)
	}
	return r
}

// readBoth returns the record of obj, and then that of old, the object before the update. Each is nil if there is none that the keyring
// trusts. If obj is old itself and has a record, readBoth returns that one alone.
func (k *Keyring) readBoth(obj, old *unstructured.Unstructured, id identity) []*record {
	own := k.read(obj, id)
	if own != nil && old == obj {
		return []*record{own}
	}
	stored := k.readStored(old, id)
	if own != nil && stored != nil && own.Signature == stored.Signature {
		// The signatures match, so it is the stored record. The client may have dropped its extension, or restored an
		// earlier one.
		own.extended = stored.extended
	}
	return []*record{own, stored}
}

// encode signs a record for an object, and returns the value of the annotation; "" for an empty record.
func (k *Keyring) encode(r record, id identity) (string, error) {
	return r.text(func(r record) (string, error) { return k.sign(r, id) }, k.signExtension)
}

// text returns the value of the annotation for a record that the two functions sign; "" for an empty record. The value has no HTML escapes:
// in the API server's limit, they would take six bytes of one. Signatures do not cover the value, but what is in it, so all replicas can
// read it.
func (r record) text(sign, signExtension func(record) (string, error)) (string, error) {
	if r.empty() {
		return "", nil
	}
	var err error
	if r.Signature, err = sign(r); err != nil {
		return "", err
	}
	if len(r.Clusters) > 0 || r.Form != "" || r.Earlier != "" || r.EarlierScheduling != "" {
		if r.Text, err = json.Marshal(r.extension); err != nil {
			return "", fmt.Errorf("encoding record: %w", err)
		}
		if r.TextSignature, err = signExtension(r); err != nil {
			return "", err
		}
	}
	return podscheduling.EncodeJSON(r)
}

// digest returns a short hash of a value, as an entry of a record has it: 16 hexadecimal digits.
func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

// intent is the state of an object that its developer requested, with what is known about the keys that policies overwrote.
type intent struct {
	// object is the object as the developer requested it, without the record.
	object *unstructured.Unstructured
	// current are the values in the object as it is, with the annotation that contains the record. wanted are the values that the developer
	// requested, without that annotation. Both are by field and key. For a placement object, the key of the clusters annotation has the text
	// of the object's list.
	current, wanted map[string]map[string]string
	// applied has the entries of records for the keys whose value in the object is still the policy's.
	applied record
	// recorded is a copy of the record of the object before the update if that has one, and otherwise of the object's own record; nil if there
	// is none.
	recorded *record
	// before returns the intent of the object before the update; nil if the object is not being updated.
	before func() *intent
	// refused are values that the update requests and that count as values of a policy, because a policy set them earlier.
	refused []Change
	// usesOld reports whether the intent depends on fields of the object before the update other than its metadata. If that was read without
	// these, the intent may be wrong, and must be determined again with them.
	usesOld bool
	// pods is the pod spec of the object as it is.
	pods podSpec
	// clusters is the list of clusters of a placement object; nil for other objects, which have an annotation.
	clusters *clusterField
	// copied is the record of the object's controller, as text, which the object keeps together with the clusters of its controller; ""
	// unless it follows the controller (Decider.follow).
	copied string
}

// locations says where merging reads, beside labels and annotations.
type locations struct {
	// podSpec is the path of the pod spec in the object; nil if no policy may decide on scheduling and no record has scheduling values.
	podSpec []string
	// clusters says where a placement object lists its clusters; nil for other objects.
	clusters *clusterlist.Kind
}

// podSpec is the pod spec of an object, or of its pod template.
type podSpec struct {
	// path is the path of the pod spec in the object; nil if the pod spec is not needed.
	path []string
	// spec is the decoded pod spec; nil if path is nil, and if there is no object at the path, which is an error (err).
	spec map[string]any
	// flat are the scheduling values of the pod spec, by merge key, without what the API server adds to them.
	flat map[string]string
	// err says why the pod spec cannot be read; nil if it can.
	err error
}

// readPodSpec returns the pod spec at a path in an object; an empty one if the path is nil.
func readPodSpec(obj *unstructured.Unstructured, path []string) podSpec {
	out := podSpec{path: path}
	if len(path) == 0 {
		return out
	}
	if out.spec, out.err = podscheduling.PodSpecOf(obj.Object, path); out.err != nil {
		return out
	}
	asked := out.spec
	if len(path) == 1 {
		// Only Pods have a path of one element.
		asked = podscheduling.AsRequested(asked)
	}
	if out.flat, out.err = podscheduling.Flatten(asked); out.err != nil {
		out.err = fmt.Errorf("%s.%w", strings.Join(path, "."), out.err)
	}
	return out
}

// unfold returns the scheduling values with the affinity split into the developer's own, and one key for each policy that added to it. It
// leaves out what policies added earlier. If another client changed the affinity since the record was written, unfold sets the entries of
// the record to what is left of the additions.
func (p *podSpec) unfold(records []*record, was earlierAffinity) map[string]string {
	out := maps.Clone(p.flat)
	if out == nil {
		out = map[string]string{}
	}
	text, there := out[podscheduling.Affinity]
	if !there {
		return out
	}
	requested, added := &text, map[string]string(nil)
	i := slices.IndexFunc(records, func(r *record) bool { return r != nil && r.Affinity != nil })
	if i >= 0 && digest(text) == records[i].Affinity.Set {
		requested, added = records[i].Affinity.Requested, records[i].additions()
	} else if own, composed := was.composed(text); composed {
		requested = own
	} else if i >= 0 {
		requested, added = records[i].changed(text, was.values)
	} else if slices.ContainsFunc(podscheduling.Items(text), was.values.hasItem) {
		requested, _ = podscheduling.Split(text, nil, nil, was.values.hasItem)
	}
	delete(out, podscheduling.Affinity)
	if requested != nil {
		out[podscheduling.Affinity] = *requested
	}
	maps.Copy(out, added)
	return out
}

// additions returns what each policy added to the affinity, by merge key.
func (r *record) additions() map[string]string {
	out := map[string]string{}
	for key, entry := range r.Scheduling {
		if podscheduling.IsContribution(key) && entry.Value != nil {
			out[key] = *entry.Value
		}
	}
	return out
}

// changed splits an affinity that another client changed since the record was written. It returns the part that the developer requests, and
// what is left of the policies' additions, by merge key. It sets the entries of the record to the latter.
func (r *record) changed(text string, earlier earlierValues) (requested *string, left map[string]string) {
	requested, left = podscheduling.Split(text, r.Affinity.Requested, r.additions(), earlier.hasItem)
	r.Scheduling = maps.Clone(r.Scheduling)
	for key, value := range left {
		entry := r.Scheduling[key]
		entry.Set, entry.Value = digest(value), &value
		r.Scheduling[key] = entry
	}
	return requested, left
}

// readIntent determines which values the developer requests in an object that policies may have changed. old is the object before an
// update, obj itself for an existing object, and nil for a new one.
//
// For every key with an entry in a record: if the key still has the value that the policy set, the developer has not changed it, and the
// entry has the requested value. If it has a value that a policy set earlier, the client counts as having left the key alone. Any other
// value, or none, is the developer's: a new request, or the old manifest applied once more. The object's own record takes precedence over
// that of the object before the update, which counts if a client replaced the object by a manifest without a record.
func readIntent(k *Keyring, obj, old *unstructured.Unstructured, id identity, at locations) intent {
	from := sources{records: k.readBoth(obj, old, id)}
	if old == nil || old == obj {
		return intentOf(obj, at, from)
	}
	own, stored := from.records[0], from.records[1]
	switch {
	case stored == nil:
	case own == nil:
		from.foreign = decodeRecord(obj)
	case own.Signature != stored.Signature:
		from.replayed = own
	}
	from.before = sync.OnceValue(func() *intent {
		return new(intentOf(old, at, sources{records: []*record{stored}}))
	})
	return intentOf(obj, at, from)
}

// sources is what intentOf knows about an object, besides its content: the records that are valid for it, what was requested in the object
// before the update, and which record in the object is older than the stored one (replayed), or not valid for the object (foreign).
type sources struct {
	// records are the records that are valid for the object, in order of precedence: its own, and then that of the object before the update.
	// Each may be nil.
	records []*record
	// before returns the intent of the object before the update; nil if the object is not being updated.
	before func() *intent
	// replayed is the object's own record if the object before the update has another one; nil otherwise. It is an earlier record, as after
	// an undo of a rollout, or the record of an earlier call of the webhook in the same request.
	replayed *record
	// foreign is a record in the object that an update sends, not valid for it, while the object before the update has a valid one; nil
	// otherwise. After an undo of a rollout, a Deployment has the record of its ReplicaSet, together with its annotations.
	foreign *record
}

// copied reports whether a record in the object that is not valid for it (foreign) says that a policy set an annotation to the value. It is
// false for labels and scheduling values, and if there is no such record. No client gains anything by that: the key then keeps its
// requested value.
func (s sources) copied(field, key, value string) bool {
	if s.foreign == nil || field != fieldAnnotations {
		return false
	}
	entry, there := s.foreign.Annotations[key]
	return there && entry.Set == digest(value)
}

// recorded returns a copy of the last of the records that is not nil; nil if there is none. It merges no records: the last one has all
// values that policies set earlier. The copy has none of these if the object requests all values as they are written (asWritten).
func (s sources) recorded(obj *unstructured.Unstructured) *record {
	var out *record
	for _, r := range s.records {
		if r != nil {
			out = new(*r)
		}
	}
	if out != nil && asWritten(obj) {
		out.Earlier, out.EarlierScheduling = "", ""
	}
	return out
}

// intentOf returns the state that the developer requests in an object, by records that are already read. It decides as readIntent does.
func intentOf(obj *unstructured.Unstructured, at locations, from sources) intent {
	if asWritten(obj) {
		from.foreign = nil
	}
	out := intent{
		object: withOwnMetadata(obj), current: map[string]map[string]string{}, wanted: map[string]map[string]string{},
		pods: readPodSpec(obj, at.podSpec), clusters: readClusters(obj, at.clusters), recorded: from.recorded(obj), before: from.before,
	}
	for _, field := range fields {
		var actual map[string]string
		if field == fieldScheduling {
			actual = out.pods.unfold(from.records, out.earlierAffinity(from))
		} else {
			actual = out.annotationsOrLabels(obj, field)
		}
		out.current[field], out.wanted[field] = actual, maps.Clone(actual)
		for _, r := range from.records {
			for key, entry := range r.of(field) {
				if _, seen := out.applied.of(field)[key]; seen {
					continue
				}
				if value, present := actual[key]; !present || digest(value) != entry.Set {
					continue
				}
				if r == from.replayed && out.recorded.sets(field, key, entry.Requested) {
					out.returnKey(field, key, from.before())
				} else {
					out.apply(field, key, entry, r)
				}
			}
		}
		out.returned(field, actual, from)
		values := out.wanted[field]
		if field == fieldAnnotations {
			delete(values, placementv1.RequestedAnnotation)
		}
		if field == fieldScheduling {
			out.setPods(values)
		} else if own := out.clusters.inMetadata(field, values); len(own) == 0 || !maps.Equal(actual, values) {
			setMetadata(out.object, field, own)
		}
	}
	out.setClusters()
	return out
}

// apply handles a key that still has a policy's value, according to its entry in the record of: the requested value is that of the entry.
func (i *intent) apply(field, key string, entry overwritten, of *record) {
	i.applied.put(field, key, entry)
	if field == fieldAnnotations && key == placementv1.ClustersAnnotation {
		i.applied.Clusters = of.Clusters
		if i.clusters != nil {
			// Only the complete object before the update shows which clusters it had.
			i.usesOld = i.before != nil
			// Without a recorded form, nothing is known beside the names. The form of the object as it is has those of the policy.
			i.clusters.form = cmp.Or(of.Form, "{}")
		}
	}
	if entry.Requested == nil {
		delete(i.wanted[field], key)
	} else {
		i.wanted[field][key] = *entry.Requested
	}
}

// annotationsOrLabels returns the object's labels or annotations. In a placement object, the text of its list replaces the clusters
// annotation.
func (i *intent) annotationsOrLabels(obj *unstructured.Unstructured, field string) map[string]string {
	values := metadataOf(obj, field)
	if i.clusters != nil && field == fieldAnnotations {
		delete(values, placementv1.ClustersAnnotation)
		if text := i.clusters.list.Text; text != nil {
			values[placementv1.ClustersAnnotation] = *text
		}
	}
	return values
}

// setPods writes the requested scheduling values into the intent's object.
func (i *intent) setPods(values map[string]string) {
	if i.pods.spec == nil || maps.Equal(i.pods.flat, values) {
		return
	}
	// The values are the developer's only, so there are no additions to compose.
	spec := podscheduling.Apply(i.pods.spec, i.pods.flat, values)
	i.object.Object = podscheduling.WithMember(i.object.Object, spec, i.pods.path...)
}

// withOwnMetadata returns a copy of an object in which SetLabels and SetAnnotations do not change the original. It shares everything else,
// also the present maps of labels and annotations, and these must not be changed.
func withOwnMetadata(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := maps.Clone(obj.Object)
	if metadata, ok := out["metadata"].(map[string]any); ok {
		out["metadata"] = maps.Clone(metadata)
	}
	return &unstructured.Unstructured{Object: out}
}

// metadataOf returns a copy of the object's labels or annotations, depending on the field. It never returns nil.
func metadataOf(obj *unstructured.Unstructured, field string) map[string]string {
	values := obj.GetAnnotations
	if field == fieldLabels {
		values = obj.GetLabels
	}
	if m := values(); m != nil {
		return m
	}
	return map[string]string{}
}

// setMetadata sets the object's labels or annotations, depending on the field. It removes the field if there are no values.
func setMetadata(obj *unstructured.Unstructured, field string, values map[string]string) {
	if len(values) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
		return
	}
	if field == fieldLabels {
		obj.SetLabels(values)
	} else {
		obj.SetAnnotations(values)
	}
}
