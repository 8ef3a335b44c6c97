package embedded

import (
	"crypto/sha256"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// shown is what an object shows at its places, which objects that are cut to the same share. It is immutable but for
// the number of its uses, which is the writer's.
type shown struct {
	terms [sides]*ast.Term

	key  digest
	uses int
}

// digest stands for the key of what an object is cut to: the first half of its SHA-256. That two keys differ and have
// the same digest is not to be expected; the key of a whole object would be as large as the object.
type digest [sha256.Size / 2]byte

// sharing keeps one copy of all that objects of a type are cut to. It belongs to the type's writer.
type sharing struct {
	fields [sides]*projection.Fields
	known  map[digest]*shown
	key    []byte
	bytes  int64
}

func newSharing(fields *projection.Fields) *sharing {
	out := &sharing{known: map[digest]*shown{}}
	out.fields[own], out.fields[normal] = fields, replication.FieldsOfNormal(fields)
	return out
}

// take returns what a prepared object is cut to, and counts one more use of it.
func (s *sharing) take(object map[string]any) *shown {
	var parts [sides]map[string]any
	parts[own], parts[normal] = replication.Parts(object)
	s.key = s.key[:0]
	for side, part := range parts {
		if part == nil {
			continue
		}
		// What has no key has no value either, and was never JSON.
		s.key, _ = s.fields[side].AppendKey(append(s.key, byte(side)), part)
	}
	sum := sha256.Sum256(s.key)
	key := digest(sum[:])
	out, ok := s.known[key]
	if !ok {
		out = &shown{key: key}
		for side, part := range parts {
			if part != nil {
				out.terms[side] = mustTerm(s.fields[side], part)
			}
		}
		s.known[key] = out
		s.bytes += out.weight()
	}
	out.uses++
	return out
}

// drop counts one use less.
func (s *sharing) drop(v *shown) {
	if v.uses--; v.uses == 0 {
		delete(s.known, v.key)
		s.bytes -= v.weight()
	}
}

// weight estimates what it takes of memory.
func (v *shown) weight() int64 {
	sum := int64(shownBytes)
	for _, term := range v.terms {
		if term != nil {
			sum += weigh(term.Value)
		}
	}
	return sum
}

func mustTerm(fields *projection.Fields, document map[string]any) *ast.Term {
	value, err := fields.Value(document)
	if err != nil {
		panic(err)
	}
	return ast.NewTerm(value)
}

// What things take of memory, as a test measures it in sum.
const (
	// recordBytes are a record and its name, with what trees leave free.
	recordBytes = 95
	shownBytes  = 110
	scalarBytes = 24
	objectBytes = 260
	memberBytes = 48
)

// weigh estimates what a value takes of memory. It sorts the members of objects, which makes them fit to be shared.
func weigh(value ast.Value) int64 {
	switch v := value.(type) {
	case ast.Object:
		sum := int64(objectBytes)
		v.Foreach(func(_, member *ast.Term) { sum += memberBytes + scalarBytes + weigh(member.Value) })
		return sum
	case *ast.Array:
		sum := int64(objectBytes)
		v.Foreach(func(member *ast.Term) { sum += scalarBytes + weigh(member.Value) })
		return sum
	case ast.String:
		return int64(scalarBytes + len(v))
	default:
		return scalarBytes
	}
}
