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

package language

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// Builtin functions that Berth adds to the language. The engine implements them. The functions on quantities are pure.
//
// Amounts are Kubernetes quantities, such as "1500m", "2Gi", or 3. Rego's own numbers are not exact enough: units.parse
// rounds amounts that have no exact binary form, and a rounded limit is wrong.
var (
	// QuantityAdd is k8s.quantity.add(x, y), the sum as a quantity in canonical form.
	QuantityAdd = quantityFunction("k8s.quantity.add", types.S)
	// QuantitySub is k8s.quantity.sub(x, y), the difference as a quantity in canonical form.
	QuantitySub = quantityFunction("k8s.quantity.sub", types.S)
	// QuantityCompare is k8s.quantity.compare(x, y): -1, 0, or 1 if x is less than, equal to, or greater than y.
	QuantityCompare = quantityFunction("k8s.quantity.compare", types.N)
)

// Builtin functions that call the scheduler's predicates. Like references to `data`, they read replica data: a result
// is the same throughout one evaluation and may differ in the next. So they are deterministic in the sense of the
// language, and OPA evaluates nothing of a policy before a decision.
//
// The first operand is a Pod, an object that has a pod template, or such a template. The last one selects the
// candidates: "*" for all, an array or a set of names, or a Kubernetes label selector. The result has an entry for each
// candidate, keyed by name.
var (
	// Feasible is k8s.feasible(pod_or_template, nodes). It says for each node whether the pod can run there.
	Feasible = predicateFunction("k8s.feasible", types.Named("pod_or_template", anyObject), types.Named("nodes", candidates))
	// FeasibleClusters is k8s.feasible_clusters(pod_or_template, replicas, clusters). The operand replicas, at least 1,
	// is the number of replicas to place. It overrides the number in the object.
	FeasibleClusters = predicateFunction("k8s.feasible_clusters",
		types.Named("pod_or_template", anyObject), types.Named("replicas", types.N), types.Named("clusters", candidates))
)

var (
	anyObject  = types.NewObject(nil, types.NewDynamicProperty(types.S, types.A))
	candidates = types.NewAny(types.S, types.NewArray(nil, types.S), types.NewSet(types.S), anyObject)
	// verdicts is the type of the predicates' results, keyed by candidate name.
	verdicts = types.NewObject(nil, types.NewDynamicProperty(types.S, types.NewObject([]*types.StaticProperty{
		types.NewStaticProperty("feasible", types.B),
		types.NewStaticProperty("reasons", types.NewArray(nil, types.S)),
		types.NewStaticProperty("predicate", types.S),
		types.NewStaticProperty("preemption", types.B),
		types.NewStaticProperty("replicas", types.N),
	}, nil)))
)

// predicateFunction returns the declaration of a builtin function that evaluates predicates. The result of the builtin has an object for
// each candidate, by the candidate's name: whether the pod can run there, and why not. It is declared as deterministic.
func predicateFunction(name string, operands ...types.Type) *ast.Builtin {
	return &ast.Builtin{Name: name, Decl: types.NewFunction(types.Args(operands...), types.Named("verdicts", verdicts))}
}

// CEL is k8s.cel(expression, object): the value of a CEL expression over the variable object, which must be a boolean. It is pure.
var CEL = &ast.Builtin{
	Name: "k8s.cel",
	Decl: types.NewFunction(types.Args(types.Named("expression", types.S), types.Named("object", anyObject)), types.Named("result", types.B)),
}

// Scale is k8s.scale(values, lowest, highest): numbers or quantities, by name, as integers in proportion. The least value becomes the
// integer lowest and the greatest one the integer highest, of which either may be the greater one. The others are rounded down. If all
// values are equal, they become the greater integer. It is pure.
var Scale = &ast.Builtin{Name: "k8s.scale", Decl: types.NewFunction(
	types.Args(
		types.Named("values", types.NewObject(nil, types.NewDynamicProperty(types.A, types.NewAny(types.S, types.N)))),
		types.Named("lowest", types.N), types.Named("highest", types.N),
	),
	types.Named("result", types.NewObject(nil, types.NewDynamicProperty(types.A, types.N))),
)}

// Builtin functions that choose the best clusters for an object by rendezvous hashing. They are pure.
//
// The operand object is the text by which objects are told apart, such as the kind, namespace, and name, joined by slashes. The operand
// scores has the scores of the clusters that may be chosen, by name, or only the names if no cluster is better than another. The operand
// options has numbers by the names below.
var (
	// ChooseClusters is k8s.choose_clusters(object, scores, options): the names of the best clusters. The options are OptionLimit and
	// OptionMinGain.
	ChooseClusters = &ast.Builtin{Name: "k8s.choose_clusters", Decl: types.NewFunction(
		types.Args(types.Named("object", types.S), types.Named("scores", scores), types.Named("options", options)),
		types.Named("clusters", types.NewSet(types.S)),
	)}
	// SpreadClusters is k8s.spread_clusters(object, scores, domains, options): the names of the best clusters of the best domains, and these
	// domains. The operand domains has the domain of each cluster, by the name of the cluster. All options are allowed.
	SpreadClusters = &ast.Builtin{Name: "k8s.spread_clusters", Decl: types.NewFunction(
		types.Args(types.Named("object", types.S), types.Named("scores", scores), types.Named("domains", domains),
			types.Named("options", options)),
		types.Named("choice", types.NewObject([]*types.StaticProperty{
			types.NewStaticProperty("clusters", types.NewSet(types.S)),
			types.NewStaticProperty("domains", types.NewSet(types.S)),
		}, nil)),
	)}
)

// Options of ChooseClusters and SpreadClusters. Each is an integer from 1 on.
const (
	// OptionLimit is how many clusters are chosen at most. Only SpreadClusters works without it.
	OptionLimit = "limit"
	// OptionMinGain is by how much the score of a cluster must be higher for it to be better. The default is 1.
	OptionMinGain = "minGain"
	// OptionMinDomains is how many domains are needed for any cluster to be chosen. The default is 1.
	OptionMinDomains = "minDomains"
	// OptionMaxDomains is how many domains are used at most.
	OptionMaxDomains = "maxDomains"
	// OptionMinClusters is how many clusters a domain needs in order to be used. The default is 1.
	OptionMinClusters = "minClusters"
	// OptionMaxClusters is how many clusters of a domain are chosen at most.
	OptionMaxClusters = "maxClusters"
)

var (
	scores = types.NewAny(
		types.NewArray(nil, types.S), types.NewSet(types.S), types.NewObject(nil, types.NewDynamicProperty(types.S, types.N)),
	)
	domains = types.NewObject(nil, types.NewDynamicProperty(types.S, types.S))
	options = types.NewObject(nil, types.NewDynamicProperty(types.S, types.N))
)

var ownBuiltins = []*ast.Builtin{QuantityAdd, QuantitySub, QuantityCompare, Feasible, FeasibleClusters, CEL, Scale,
	ChooseClusters, SpreadClusters}

// quantityFunction returns the declaration of a builtin function of two quantities, each a string or a number. result is the type of the
// builtin's result: a string for a quantity, or a number for the order of the two (-1, 0, or 1).
func quantityFunction(name string, result types.Type) *ast.Builtin {
	quantity := types.NewAny(types.S, types.N)
	return &ast.Builtin{
		Name: name,
		Decl: types.NewFunction(types.Args(types.Named("x", quantity), types.Named("y", quantity)), types.Named("result", result)),
	}
}
