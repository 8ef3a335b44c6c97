package placement

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// The parts of an object that decisions are merged into.
const (
	fieldAnnotations = "annotations"
	fieldLabels      = "labels"
	fieldScheduling  = "scheduling"
)

// fields lists them in the order in which changes are reported.
var fields = []string{fieldAnnotations, fieldLabels, fieldScheduling}

// record is kept with an object: for each key that a policy overwrote, what the developer asked for.
//
// Replicas of several versions read and write records at the same time, during an upgrade and after a rollback. So the fields
// that Signature is over are frozen: replicas of every version compute it from just these, and drop other members. A field that
// comes later goes into the extension.
type record struct {
	Annotations map[string]overwritten `json:"annotations,omitempty"`
	Labels      map[string]overwritten `json:"labels,omitempty"`
	Scheduling  map[string]overwritten `json:"scheduling,omitempty"`
	// Affinity is of the pods' affinity as a whole, where policies added to it: what each of them added is in Scheduling.
	Affinity *overwritten `json:"affinity,omitempty"`
	// Signature is over the fields above and the object's identity, so that a record is worth nothing on another object and
	// can't be written by anyone who does not have the key.
	Signature string `json:"signature,omitempty"`
	extended
}

// extension is what a record says that its Signature is not over. It is empty where a replica wrote the record that does not
// know extensions.
type extension struct {
	// Clusters are the names of clusters that each policy allows, by policy, where the value of the annotation is not just
	// what the policy in the annotation's entry allows.
	Clusters map[string][]string `json:"clusters,omitempty"`
}

// extended is an extension as the annotation has it.
type extended struct {
	extension `json:"-"`
	// Text is the extension's JSON. It is verified as it is written, so that replicas trust one with members that they don't
	// know.
	Text json.RawMessage `json:"extension,omitempty"`
	// TextSignature is over Text and the record's Signature, so that an extension is worth nothing with another record.
	TextSignature string `json:"extensionSignature,omitempty"`
}

// overwritten is one key's entry.
type overwritten struct {
	// Requested is the developer's value; nil where the developer did not set the key.
	Requested *string `json:"requested,omitempty"`
	// By is the policy that overwrote it.
	By string `json:"by,omitempty"`
	// Set is a digest of the policy's value: where the object has another one by now, somebody changed it since, and
	// that is a new intent.
	Set string `json:"set"`
	// Value is the policy's value where the object does not show it.
	Value *string `json:"value,omitempty"`
}

func (r *record) of(field string) map[string]overwritten {
	if r == nil {
		return nil
	}
	return *r.entries(field)
}

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

func (r *record) put(field, key string, entry overwritten) {
	target := r.entries(field)
	if *target == nil {
		*target = map[string]overwritten{}
	}
	(*target)[key] = entry
}

func (r *record) empty() bool {
	return len(r.Annotations) == 0 && len(r.Labels) == 0 && len(r.Scheduling) == 0
}

// Keyring signs and verifies records. The zero value has no key and trusts no record.
type Keyring struct {
	key []byte
	// unverified trusts every record.
	unverified bool
}

// KeySize is the length of a signing key in bytes.
const KeySize = 32

// NewKeyring returns a keyring over a secret key of KeySize bytes, which every replica must share and which must
// outlive them: records that were signed with another key are worth nothing.
func NewKeyring(key []byte) (*Keyring, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("signing key of %d bytes, want %d", len(key), KeySize)
	}
	return &Keyring{key: key}, nil
}

// NewUnverifiedKeyring returns a keyring that trusts every record and signs none. It is for an administrator who undoes
// placements after the key was deleted; see Decider.Undo.
func NewUnverifiedKeyring() *Keyring { return &Keyring{unverified: true} }

// identity is what a record belongs to. It is the same for every version of a kind.
type identity struct {
	Group, Kind, Namespace string
	// Name is the object's; empty while the API server has not made one from GenerateName, which is empty otherwise.
	Name, GenerateName string
}

func identityOf(obj *unstructured.Unstructured, namespace string) identity {
	gvk := obj.GroupVersionKind()
	id := identity{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: obj.GetName()}
	if id.Name == "" {
		id.GenerateName = obj.GetGenerateName()
	}
	return id
}

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

// signExtension signs the record's extension for the record's signature.
func (k *Keyring) signExtension(r record) (string, error) {
	return k.mac(struct{ Extension, Of string }{string(r.Text), r.Signature})
}

// mac returns the HMAC of a value's JSON. Values of different kinds must differ in their first member's name.
func (k *Keyring) mac(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding record: %w", err)
	}
	mac := hmac.New(sha256.New, k.key)
	mac.Write(text)
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// read returns the object's record, or nil if it has none that this keyring signed for it.
func (k *Keyring) read(obj *unstructured.Unstructured, id identity) *record {
	if obj == nil {
		return nil
	}
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", fieldAnnotations, placementv1.RequestedAnnotation)
	text, ok := value.(string)
	if !ok || len(text) > apivalidation.TotalAnnotationSizeLimitB {
		// The API server stores no such record, so nobody signed it.
		return nil
	}
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil
	}
	if k.unverified {
		return &r
	}
	want, err := k.sign(r, id)
	if err != nil || !hmac.Equal([]byte(want), []byte(r.Signature)) {
		return nil
	}
	r.extension = k.readExtension(r)
	return &r
}

// readExtension returns the extension of a record that verified; an empty one if it is not genuine.
func (k *Keyring) readExtension(r record) extension {
	if len(r.Text) == 0 {
		return extension{}
	}
	want, err := k.signExtension(r)
	if err != nil || !hmac.Equal([]byte(want), []byte(r.TextSignature)) {
		return extension{}
	}
	var out extension
	if err := json.Unmarshal(r.Text, &out); err != nil {
		return extension{}
	}
	return out
}

// readStored is read for an object as the API server has it. Its record may have been signed before it had a name;
// one that a client sends may not, or it could be another object's of the same generateName.
func (k *Keyring) readStored(obj *unstructured.Unstructured, id identity) *record {
	r := k.read(obj, id)
	if r == nil && obj != nil && obj.GetGenerateName() != "" {
		id.Name, id.GenerateName = "", obj.GetGenerateName()
		r = k.read(obj, id)
	}
	return r
}

// readBoth returns the object's record and, where it may count, that of the object before the update. Each may be nil.
func (k *Keyring) readBoth(obj, old *unstructured.Unstructured, id identity) []*record {
	own := k.read(obj, id)
	if own != nil && old == obj {
		return []*record{own}
	}
	stored := k.readStored(old, id)
	if own != nil && stored != nil && own.Signature == stored.Signature {
		// It is the stored record. A client may have dropped its extension, or put back an earlier one.
		own.extended = stored.extended
	}
	return []*record{own, stored}
}

// encode returns the annotation's value; empty for an empty record.
func (k *Keyring) encode(r record, id identity) (string, error) {
	if r.empty() {
		return "", nil
	}
	var err error
	if r.Signature, err = k.sign(r, id); err != nil {
		return "", err
	}
	if len(r.Clusters) > 0 {
		if r.Text, err = json.Marshal(r.extension); err != nil {
			return "", fmt.Errorf("encoding record: %w", err)
		}
		if r.TextSignature, err = k.signExtension(r); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encoding record: %w", err)
	}
	return string(text), nil
}

func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

// intent is an object as its developer wants it, and what is known of the keys that policies overwrote.
type intent struct {
	// object is the developer's, without the record.
	object *unstructured.Unstructured
	// current and wanted are the values, by field, of the object as it stands and as the developer wants it, without the
	// record.
	current, wanted map[string]map[string]string
	// standing are the entries whose key still has the policy's value in the object as it stands.
	standing record
	// pods are those of the object as it stands.
	pods podSpec
}

// podSpec is the spec of an object's pods.
type podSpec struct {
	// path leads to it; empty if nobody asks for it.
	path []string
	spec map[string]any
	// flat is what it says of where the pods run, by key.
	flat map[string]string
	// err says what is wrong with it.
	err error
}

func readPodSpec(obj *unstructured.Unstructured, path []string) podSpec {
	out := podSpec{path: path}
	if len(path) == 0 {
		return out
	}
	if out.spec, out.err = podSpecOf(obj.Object, path); out.err != nil {
		return out
	}
	asked := out.spec
	if len(path) == 1 {
		// Of Pods alone.
		asked = asAsked(asked)
	}
	if out.flat, out.err = flatten(asked); out.err != nil {
		out.err = fmt.Errorf("%s.%w", strings.Join(path, "."), out.err)
	}
	return out
}

// unfold returns a copy of what the spec says, by key, in which the affinity is the developer's again, besides what
// policies added to it. Where somebody changed the affinity since, a record's entries become those of what is left of
// them.
func (p *podSpec) unfold(records []*record) map[string]string {
	out := maps.Clone(p.flat)
	if out == nil {
		out = map[string]string{}
	}
	text, there := out[affinity]
	if !there {
		return out
	}
	for _, r := range records {
		if r == nil || r.Affinity == nil {
			continue
		}
		requested, added := r.Affinity.Requested, r.additions()
		if digest(text) != r.Affinity.Set {
			requested, added = r.changed(text, added)
		}
		delete(out, affinity)
		if requested != nil {
			out[affinity] = *requested
		}
		maps.Copy(out, added)
		break
	}
	return out
}

// additions are what policies added to the affinity, by key.
func (r *record) additions() map[string]string {
	out := map[string]string{}
	for key, entry := range r.Scheduling {
		if isContribution(key) && entry.Value != nil {
			out[key] = *entry.Value
		}
	}
	return out
}

// changed returns what the developer asks for in an affinity that somebody changed, and what is left in it of additions,
// of which the entries become.
func (r *record) changed(text string, added map[string]string) (requested *string, left map[string]string) {
	if r.Affinity.Requested != nil && *r.Affinity.Requested == text {
		return r.Affinity.Requested, nil
	}
	objects := map[string]map[string]any{}
	for key, value := range added {
		objects[key] = jsonObject(&value)
	}
	own, rest := without(jsonObject(&text), jsonObject(r.Affinity.Requested), objects)
	left = map[string]string{}
	for key, object := range rest {
		value, entry := jsonText(object), r.Scheduling[key]
		entry.Set, entry.Value = digest(value), &value
		left[key], r.Scheduling[key] = value, entry
	}
	if len(own) == 0 {
		return nil, left
	}
	whole := jsonText(own)
	return &whole, left
}

// readIntent finds out what the developer wants of an object that a policy may have overwritten.
//
// For every key with an entry: if the key has the very value that the policy set, the developer has not touched it
// since and wants what the entry says. Any other value, or none, is the developer's: a new wish, or the old manifest
// applied once more. The object's own record counts first, and the old object's where a client replaced the object
// by a manifest that has none.
//
// The path leads to the spec of the object's pods; it is empty where no policy decides on scheduling.
func readIntent(k *Keyring, obj, old *unstructured.Unstructured, id identity, path []string) intent {
	return intentOf(obj, path, k.readBoth(obj, old, id))
}

// intentOf is readIntent for records that were read before, of which the first counts first. Each may be nil.
func intentOf(obj *unstructured.Unstructured, path []string, records []*record) intent {
	out := intent{
		object: withOwnMetadata(obj), current: map[string]map[string]string{}, wanted: map[string]map[string]string{}, pods: readPodSpec(obj, path),
	}
	for _, field := range fields {
		var current map[string]string
		if field == fieldScheduling {
			current = out.pods.unfold(records)
		} else {
			current = metadataOf(obj, field)
		}
		values := maps.Clone(current)
		for _, r := range records {
			for key, entry := range r.of(field) {
				if _, seen := out.standing.of(field)[key]; seen {
					continue
				}
				value, present := current[key]
				if !present || digest(value) != entry.Set {
					continue
				}
				out.standing.put(field, key, entry)
				if field == fieldAnnotations && key == placementv1.ClustersAnnotation {
					out.standing.Clusters = r.Clusters
				}
				if entry.Requested == nil {
					delete(values, key)
				} else {
					values[key] = *entry.Requested
				}
			}
		}
		if field == fieldAnnotations {
			delete(values, placementv1.RequestedAnnotation)
		}
		switch {
		case field == fieldScheduling:
			out.setPods(values)
		case len(values) == 0 || !maps.Equal(current, values):
			setMetadata(out.object, field, values)
		}
		out.current[field], out.wanted[field] = current, values
	}
	return out
}

// setPods gives the developer's object pods that run where the developer wants.
func (i *intent) setPods(values map[string]string) {
	if i.pods.spec == nil || maps.Equal(i.pods.flat, values) {
		return
	}
	// These are the developer's alone, with nothing to compose.
	spec := place(i.pods.spec, i.pods.flat, values)
	i.object.Object = withMember(i.object.Object, spec, i.pods.path...)
}

// withOwnMetadata returns a copy of the object whose labels and annotations can be set. It shares the rest, which nobody
// changes.
func withOwnMetadata(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := maps.Clone(obj.Object)
	if metadata, ok := out["metadata"].(map[string]any); ok {
		out["metadata"] = maps.Clone(metadata)
	}
	return &unstructured.Unstructured{Object: out}
}

// metadataOf returns a copy of the object's labels or annotations, never nil.
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
