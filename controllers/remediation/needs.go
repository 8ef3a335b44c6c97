package remediation

import (
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

// needs are the fields of objects that decisions depend on, by type. It is safe for concurrent use.
type needs struct {
	registry *placement.Registry
	decider  *placement.Decider

	mu sync.Mutex
	// scheduled are the types of objects some of which have a record of what policies overwrote of where their pods run.
	// It counts even when no policy says anything of that any more.
	scheduled map[schema.GroupVersionResource]bool
	// policies are those that byType is for, and inputs what they read; byType is filled when it is asked for.
	policies []*placement.Policy
	inputs   []*projection.Fields
	byType   map[schema.GroupVersionResource]*projection.Fields
}

// lastApplied is kubectl's copy of an object. It makes objects twice as large, and policies hardly ever read it.
const lastApplied = corev1.LastAppliedConfigAnnotation

var (
	// always are the fields that every decision depends on, besides those that identify the object: selectors look at
	// labels, decisions are compared with labels and annotations, and one of these is the record of the developer's
	// intent, which may be signed with generateName.
	always = func() *projection.Fields {
		f := &projection.Fields{}
		metadata := f.Name("metadata")
		metadata.Name("generateName")
		metadata.Name("labels").All()
		metadata.Name("annotations").All()
		return f.Seal()
	}()
	// copied is kubectl's copy as policies read it.
	copied = func() *projection.Fields {
		f := &projection.Fields{}
		f.Name("metadata").Name("annotations").Name(lastApplied)
		return f.Seal()
	}()
	// withCopy, a name that no object has, says that kubectl's copy is needed, as the set always has it.
	withCopy = func() *projection.Fields {
		f := &projection.Fields{}
		f.Name("\x00" + lastApplied)
		return f.Seal()
	}()
)

// of returns the fields that the policies in force need of a type, sealed; nil for all.
func (n *needs) of(resource schema.GroupVersionResource) *projection.Fields {
	n.mu.Lock()
	defer n.mu.Unlock()
	if policies := n.registry.InForce(); n.byType == nil || !identical(policies, n.policies) {
		n.renew(policies)
	}
	if fields, ok := n.byType[resource]; ok {
		return fields
	}
	fields := n.compute(resource)
	n.byType[resource] = fields
	return fields
}

func (n *needs) renew(policies []*placement.Policy) {
	n.policies, n.inputs, n.byType = policies, make([]*projection.Fields, len(policies)), map[schema.GroupVersionResource]*projection.Fields{}
	for i, p := range policies {
		n.inputs[i] = p.Evaluator.Input()
	}
}

// identical says whether two slices are the same one.
func identical(a, b []*placement.Policy) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// schedule notes that some object of a type has a record of what policies overwrote of where its pods run, and says
// whether that was not known.
func (n *needs) schedule(resource schema.GroupVersionResource) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.scheduled[resource] {
		return false
	}
	if n.scheduled == nil {
		n.scheduled = map[schema.GroupVersionResource]bool{}
	}
	n.scheduled[resource] = true
	delete(n.byType, resource)
	return true
}

// widened says whether a policy turned out to read other fields of objects than was known when it came.
func (n *needs) widened() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if policies := n.registry.InForce(); !identical(policies, n.policies) {
		// Those that are gone are not to be kept, with all that they hold: after the last one nobody asks again.
		n.renew(policies)
	}
	for i, p := range n.policies {
		if n.inputs[i] != p.Evaluator.Input() {
			n.renew(n.policies)
			return true
		}
	}
	return false
}

func (n *needs) compute(resource schema.GroupVersionResource) *projection.Fields {
	sets, known := []*projection.Fields{always}, map[*projection.Fields]bool{}
	schedules := n.scheduled[resource]
	for i, p := range n.policies {
		input := n.inputs[i]
		if !p.Matcher.SelectsResource(resource) {
			continue
		}
		if input.Whole() || p.Matcher.Conditional() {
			return nil
		}
		schedules = schedules || p.Schedules
		if known[input] {
			continue
		}
		known[input] = true
		sets = append(sets, input)
		if input.Covers(copied) {
			sets = append(sets, withCopy)
		}
	}
	if path, ok := n.decider.Templates.Path(resource.GroupResource()); ok && schedules {
		sets = append(sets, placement.SchedulingFields(path))
	}
	return projection.Union(sets...)
}

// covers says whether an object with some fields has others; nil stands for all.
func covers(have, wanted *projection.Fields) bool {
	return have == nil || wanted != nil && have.Covers(wanted)
}

// trim drops from an object that has the fields what can't be cut by fields, and no decision depends on, and shares
// what is the same in many objects.
func trim(fields *projection.Fields, o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	if fields == nil {
		return
	}
	if !fields.Covers(withCopy) {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", lastApplied)
	}
	share(o.Object)
}

// maxShared is the length of the longest text that is shared. Longer ones, such as records of intents, are hardly ever
// the same.
const maxShared = 40

// own are members of an object's metadata that no other object has.
var own = map[string]bool{"name": true, "uid": true, "resourceVersion": true}

// share replaces texts by equal ones that other objects have.
func share(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	for key, value := range object {
		if key != "metadata" {
			value = shareValue(value)
		}
		object[shared(key).(string)] = value
	}
	for key, value := range metadata {
		if !own[key] {
			value = shareValue(value)
		}
		metadata[shared(key).(string)] = value
	}
}

func shareValue(value any) any {
	switch v := value.(type) {
	case string:
		if len(v) <= maxShared {
			return shared(v)
		}
	case []any:
		for i := range v {
			v[i] = shareValue(v[i])
		}
	case map[string]any:
		for key, member := range v {
			v[shared(key).(string)] = shareValue(member)
		}
	}
	return value
}

// shared returns a text as the value that everybody has; with the text it spares the 16 bytes of each value of an
// interface.
func shared(text string) any { return unique.Make(any(text)).Value() }
