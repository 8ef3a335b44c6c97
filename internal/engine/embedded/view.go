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

package embedded

import (
	"context"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
)

var _ storage.Store = (*view)(nil)

// view is the document `data` of one policy: the policy's own documents and the resource types that it reads. It is
// read-only. A transaction consists of a snapshot and a view. So one evaluation sees one state of the data, and
// policies with different views can share a query.
type view struct {
	storage.PolicyNotSupported
	storage.WritesNotSupported
	storage.TriggersNotSupported

	data *Data
	root *node // the node of `data` itself
}

// node is one name on a path from `data` to a document. At most one of static, resource, and clusters says what the document is. A node
// with none of them stands for its children.
type node struct {
	children map[string]*node // by name
	// static is a document of the policy itself; nil for another node.
	static ast.Value
	// resource is the resource type whose objects the document has; nil for another node.
	resource *schema.GroupVersionResource
	// form is the form in which the document has the resource's objects: the normal form for quotas, and their own for other types.
	form form
	// clusters are the inventories of a node for data.clusters or data.berth.ambiguousclusters; nil for another node.
	clusters *inventories
	// ambiguous reports whether a node with clusters is data.berth.ambiguousclusters, and not data.clusters.
	ambiguous bool
}

// newView returns the view of a policy: its own documents from the module, and the types and inventories that b binds its paths to.
func newView(data *Data, m *policy.Module, b *policy.Binding) *view {
	root := &node{children: map[string]*node{}}
	if m.Static != nil {
		m.Static.Foreach(func(name, document *ast.Term) {
			if s, ok := name.Value.(ast.String); ok {
				prepareForSharing(document.Value, math.MaxInt)
				root.children[string(s)] = &node{static: document.Value}
			}
		})
	}
	for _, bound := range b.Paths {
		at := root.below(bound.Path...)
		at.resource = &bound.Resource
		if bound.Quota {
			at.form = normalForm
		}
	}
	if len(b.Clusters) > 0 {
		of := data.inventoriesOf(b.Clusters)
		root.below(language.RootClusters).clusters = of
		ambiguous := root.below(language.RootBerth, language.AmbiguousClusters)
		ambiguous.clusters, ambiguous.ambiguous = of, true
	}
	return &view{data: data, root: root}
}

// below returns the node at a path below n. It creates the nodes that are missing.
func (n *node) below(path ...string) *node {
	for _, name := range path {
		next, ok := n.children[name]
		if !ok {
			next = &node{children: map[string]*node{}}
			n.children[name] = next
		}
		n = next
	}
	return n
}

// transaction is the state that one evaluation reads.
type transaction struct {
	id       uint64
	snapshot *snapshot
	view     *view
	// tolerated are the names of the clusters of which data.clusters leaves out the taints that mark them as not ready.
	tolerated []any
}

// ID implements storage.Transaction. It returns a number that no other transaction of the process has.
func (t *transaction) ID() uint64 { return t.id }

var transactions atomic.Uint64

// transaction returns a transaction that reads the snapshot through the view. data.clusters leaves out the taints that mark the clusters
// with the names in tolerated as not ready.
func (v *view) transaction(snap *snapshot, tolerated []any) *transaction {
	return &transaction{transactions.Add(1), snap, v, tolerated}
}

// emptyStore is the store of queries that several policies share. It is empty: an evaluation passes its own
// transaction, and reads the view of that.
var emptyStore = newView(NewData(), &policy.Module{}, &policy.Binding{})

// NewTransaction implements storage.Store. The transaction reads the current snapshot.
func (v *view) NewTransaction(context.Context, ...storage.TransactionParams) (storage.Transaction, error) {
	return v.transaction(v.data.current.Load(), nil), nil
}

// Commit implements storage.Store. There is nothing to commit.
func (*view) Commit(context.Context, storage.Transaction) error { return nil }

// Abort implements storage.Store. There is nothing to undo.
func (*view) Abort(context.Context, storage.Transaction) {}

// Truncate implements storage.Store. It returns an error, because a view is read-only.
func (*view) Truncate(context.Context, storage.Transaction, storage.TransactionParams, storage.Iterator) error {
	return &storage.Error{Code: storage.WritesNotSupportedErr}
}

// Read implements storage.Store. It reads the transaction's view, not the receiver. It returns values of the policy
// language, which OPA uses without conversion.
func (*view) Read(_ context.Context, txn storage.Transaction, path storage.Path) (any, error) {
	// Only this package makes transactions, all of this type.
	seen := txn.(*transaction)
	at, rest := seen.view.root, path
	for at != nil && len(at.children) > 0 && len(rest) > 0 {
		at, rest = at.children[rest[0]], rest[1:]
	}
	if at != nil {
		if value := seen.lookup(at, rest); value != nil {
			return value, nil
		}
	}
	return nil, &storage.Error{Code: storage.NotFoundErr, Message: path.String() + ": document does not exist"}
}

// lookup returns the document at a path below a node; nil if there is none. In data.clusters, it leaves out the taints that mark the
// tolerated clusters as not ready.
func (t *transaction) lookup(n *node, rest []string) ast.Value {
	if len(t.tolerated) > 0 && n.clusters != nil && !n.ambiguous {
		return lookupPath(t.snapshot.clusters(n.clusters).tolerating(t.tolerated), rest)
	}
	return t.snapshot.lookup(n, rest)
}

// lookup returns the document at a path below a node; nil if there is none.
func (s *snapshot) lookup(n *node, rest []string) ast.Value {
	switch {
	case n.resource != nil:
		return s.lookupResource(n, rest)
	case n.ambiguous:
		return lookupPath(s.clusters(n.clusters).document().ambiguousNames, rest)
	case n.clusters != nil:
		return lookupPath(s.clusters(n.clusters).document().clusters, rest)
	case n.static != nil:
		return lookupPath(n.static, rest)
	}
	// The path ends above the documents. Return all documents below it.
	out := ast.NewObject()
	for name, child := range n.children {
		if value := s.lookup(child, nil); value != nil {
			out.Insert(ast.StringTerm(name), ast.NewTerm(value))
		}
	}
	return out
}

// lookupResource returns the document at a path below a node with a resource type: all objects, those of a namespace, one object, or a part
// of one; nil if there is none.
func (s *snapshot) lookupResource(n *node, rest []string) ast.Value {
	t, ok := s.tables[*n.resource]
	if !ok {
		return nil
	}
	if len(rest) == 0 {
		return t.documents[n.form]()
	}
	if rest[0] == "" {
		// Cluster-scoped objects are not found under an empty namespace.
		return nil
	}
	// A lookup by name avoids building the whole collection.
	if r, ok := t.records.Get(recordKey("", rest[0])); ok {
		return lookupPath(valueOf(r.projected.terms[n.form]), rest[1:])
	}
	if len(rest) == 1 {
		return t.namespaceDocument(rest[0], n.form)
	}
	if r, ok := t.records.Get(recordKey(rest[0], rest[1])); ok {
		return lookupPath(valueOf(r.projected.terms[n.form]), rest[2:])
	}
	return nil
}

// lookupPath returns the value at a path of names below a document; nil if there is none. A name that is a number is an
// index of an array.
func lookupPath(value ast.Value, rest []string) ast.Value {
	for _, name := range rest {
		var term *ast.Term
		switch at := value.(type) {
		case ast.Object:
			term = at.Get(ast.StringTerm(name))
		case *ast.Array:
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < at.Len() {
				term = at.Elem(i)
			}
		}
		if term == nil {
			return nil
		}
		value = term.Value
	}
	return value
}
