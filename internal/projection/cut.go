package projection

// Union returns the fields that any of the sealed sets has, sealed.
func Union(sets ...*Fields) *Fields {
	budget := maxFields
	return union(sets, &budget)
}

// Covers says whether a sealed set has every field of another one: what is cut down to the one can be cut down to the
// other, as if it were the document.
func (f *Fields) Covers(other *Fields) bool {
	if f.all || f == other {
		return true
	}
	if other.all || other.each != nil && (f.each == nil || !f.each.Covers(other.each)) {
		return false
	}
	for _, n := range other.names {
		// Sealed, the fields of a name have those of every member.
		next, ok := f.named[n.text]
		if !ok {
			next = f.each
		}
		if next == nil || !next.Covers(n.fields) {
			return false
		}
	}
	return true
}

// Cut returns a document that has the fields of the sealed set alone: it has the same Value and the same key as the
// document. What the set has whole is shared with the document; the document itself is not changed.
func (f *Fields) Cut(document map[string]any) map[string]any {
	if f.all {
		return document
	}
	if f.each == nil {
		out := make(map[string]any, min(len(f.names), len(document)))
		for _, n := range f.names {
			if member, ok := document[n.text]; ok {
				out[n.text] = n.fields.cut(member)
			}
		}
		return out
	}
	out := make(map[string]any, len(document))
	for key, member := range document {
		fields, ok := f.named[key]
		if !ok {
			fields = f.each
		}
		out[key] = fields.cut(member)
	}
	return out
}

func (f *Fields) cut(document any) any {
	if f.all {
		return document
	}
	switch d := document.(type) {
	case map[string]any:
		return f.Cut(d)
	case []any:
		if f.each == nil {
			return []any{}
		}
		out := make([]any, len(d))
		for i, member := range d {
			out[i] = f.each.cut(member)
		}
		return out
	default:
		return document
	}
}
