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
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/ranking"
)

const (
	// maxHashed limits the bytes that one choice of clusters hashes: the object and a block of SHA-256, for each cluster.
	maxHashed = 1 << 28
	hashBlock = 64
	// maxScore limits the absolute value of a score.
	maxScore = int64(1) << 53
	// candidateBytes estimates the size of a candidate apart from its name: once among all, and once in its domain.
	candidateBytes = 80
	// maxCandidates is how many prepared candidates of one policy are kept at the same time.
	maxCandidates = 64
)

// chooseClusters implements the builtin function b: language.ChooseClusters or language.SpreadClusters. An error ends the evaluation: if
// the call were undefined instead, a policy could silently decide something else.
func chooseClusters(b *ast.Builtin) func(*rego.Rego) {
	return rego.FunctionDyn(&rego.Function{Name: b.Name, Decl: b.Decl}, func(c rego.BuiltinContext, operands []*ast.Term) (*ast.Term, error) {
		out, err := choose(c.Context, b, operands)
		if err != nil {
			return nil, rego.NewHaltError(err)
		}
		return out, nil
	})
}

// choose returns the result of a call of the builtin function b: the set of the chosen clusters, or an object with the clusters and the
// domains. The operands are the path of the object, the scores of the clusters, their domains (only for language.SpreadClusters), and the
// options.
func choose(ctx context.Context, b *ast.Builtin, operands []*ast.Term) (*ast.Term, error) {
	object, ok := operands[0].Value.(ast.String)
	if !ok {
		return nil, errors.New("operand 1 (object): must be a string")
	}
	last := b.Decl.Arity() - 1
	options, err := choiceOptionsOf(operands[last].Value, last > 2)
	if err != nil {
		return nil, fmt.Errorf("operand %d (options): %w", last+1, err)
	}
	key := candidatesKey{scores: operands[1].Value, minGain: options.minGain}
	if last > 2 {
		key.domains, key.minClusters = operands[2].Value, options.minClusters
	}
	made, _ := ctx.Value(choicesKey{}).(*choices)
	all, err := made.candidates(key)
	if err != nil {
		return nil, err
	}
	if err := overAll(len(all.names)*(len(object)+hashBlock), maxHashed, "bytes to hash"); err != nil {
		return nil, err
	}
	one := choice{all, options.bounds}
	clusters, domains := one.of(string(object))
	made.add(one, clusters)
	if all.domains == nil {
		return ast.NewTerm(textSet(clusters)), nil
	}
	return ast.ObjectTerm(ast.Item(clustersTerm, ast.NewTerm(textSet(clusters))), ast.Item(domainsTerm, ast.NewTerm(textSet(domains)))), nil
}

var (
	clustersTerm = ast.InternedTerm("clusters")
	domainsTerm  = ast.InternedTerm("domains")
)

// textSet returns the set of the texts as a value of the policy language.
func textSet(texts []string) ast.Set {
	out := ast.NewSetWithCapacity(len(texts))
	for _, text := range texts {
		out.Add(ast.StringTerm(text))
	}
	return out
}

// choice has the clusters from which a call of language.ChooseClusters or language.SpreadClusters chooses, and the limits on how many it
// chooses. It is immutable.
type choice struct {
	*candidates
	bounds ranking.Bounds // how many clusters are chosen, and from how many domains
}

// of returns the names of the clusters that are chosen for an object with a path, and the domains that have them; nil domains if the
// clusters have none. They are in no particular order.
func (c choice) of(object string) (clusters, domains []string) {
	if c.domains == nil {
		return c.list.Best(object, c.bounds.Limit), nil
	}
	return c.domains.Choose(object, c.bounds)
}

// changesTo returns the differences from the clusters that c chooses from to those of a later choice, by which the objects are found that
// may get other clusters. The two choices have the same bounds, which is not checked. It returns nil if they can't be compared: only one of
// them has domains, or they require different numbers of clusters of a domain.
func (c choice) changesTo(later *choice) *ranking.Changes {
	switch {
	case (c.domains == nil) != (later.domains == nil):
		return nil
	case c.domains == nil:
		return c.list.ChangesTo(later.list, c.bounds.Limit)
	}
	return c.domains.ChangesTo(later.domains, c.bounds)
}

// choices collects the choices of clusters in one evaluation of a policy, except those that chose none, and prepares the candidates for
// them. It is not safe for concurrent use.
type choices struct {
	// rules is the rule cache; nil for none.
	rules *ruleView
	// made are the choices that chose at least one cluster.
	made []choice
}

// choicesKey is the key of the *choices in an evaluation's context.
type choicesKey struct{}

// add records a choice, unless the clusters that it chose are none. It does not keep the clusters. With nil choices, it does nothing.
func (c *choices) add(one choice, clusters []string) {
	if c != nil && len(clusters) > 0 {
		c.made = append(c.made, one)
	}
}

// choiceOptions are the last operand of a call of language.ChooseClusters or language.SpreadClusters: how many clusters and domains it
// chooses, and by how much the score of a better cluster must be higher (minGain). Of the options that are not given, a minimum and minGain
// are 1, and a maximum is 0, which means no limit.
type choiceOptions struct {
	bounds      ranking.Bounds // how many clusters are chosen at most, and from how many domains; without minClusters
	minGain     int64          // scores count as equal within steps of this size, from the highest score down; at least 1
	minClusters int            // how many clusters a domain must have to be used
}

// choiceOptionsOf reads the options operand of a call of language.SpreadClusters if spread is set, or else of language.ChooseClusters,
// whose only options are limit and minGain. An unknown option and a value that is no positive integer are errors, and so are a call of
// language.ChooseClusters without the option limit, and a maxClusters below minClusters.
func choiceOptionsOf(v ast.Value, spread bool) (choiceOptions, error) {
	given, ok := v.(ast.Object)
	if !ok {
		return choiceOptions{}, errors.New("must be an object")
	}
	known := 0
	var names []string
	var wrong error
	option := func(name *ast.Term, otherwise int) int {
		names = append(names, string(name.Value.(ast.String)))
		value := given.Get(name)
		if value == nil {
			return otherwise
		}
		known++
		n, err := positiveNumber(value)
		if err != nil {
			wrong = fmt.Errorf("%s %w", name.Value, err)
		}
		return n
	}
	out := choiceOptions{bounds: ranking.Bounds{Limit: option(limitTerm, 0)}, minGain: int64(option(minGainTerm, 1)), minClusters: 1}
	if spread {
		out.bounds.MinDomains, out.bounds.MaxDomains = option(minDomainsTerm, 1), option(maxDomainsTerm, 0)
		out.minClusters, out.bounds.MaxClusters = option(minClustersTerm, 1), option(maxClustersTerm, 0)
	}
	switch {
	case wrong != nil:
		return choiceOptions{}, wrong
	case known < given.Len():
		return choiceOptions{}, errors.New("has an option that is none of " + strings.Join(names, ", "))
	case !spread && out.bounds.Limit == 0:
		return choiceOptions{}, errors.New("limit is missing")
	case out.bounds.MaxClusters > 0 && out.bounds.MaxClusters < out.minClusters:
		return choiceOptions{}, errors.New("maxClusters is less than minClusters")
	}
	return out, nil
}

// Names of the options.
var (
	limitTerm       = ast.InternedTerm(language.OptionLimit)
	minGainTerm     = ast.InternedTerm(language.OptionMinGain)
	minDomainsTerm  = ast.InternedTerm(language.OptionMinDomains)
	maxDomainsTerm  = ast.InternedTerm(language.OptionMaxDomains)
	minClustersTerm = ast.InternedTerm(language.OptionMinClusters)
	maxClustersTerm = ast.InternedTerm(language.OptionMaxClusters)
)

// candidates are the clusters that a call of language.ChooseClusters or language.SpreadClusters chooses from, ordered by their scores, for
// spreading within each domain, so that choosing for one more object takes little. They are immutable.
type candidates struct {
	// list has the clusters in the order of their scores, which count as equal within a step of minGain. It is empty if they have domains.
	list ranking.List
	// domains has the clusters by domain; nil if they have no domains.
	domains *ranking.Domains
	// names are the names of all of the clusters, in no particular order.
	names []string
}

// valid reports whether all of the names may be names of clusters in a decision.
func (c *candidates) valid() bool {
	return !slices.ContainsFunc(c.names, func(name string) bool { return len(placement.ClusterNameProblems(name)) > 0 })
}

// size estimates the size of the candidates in bytes, from the number of clusters and the lengths of their names.
func (c *candidates) size() (n int) {
	for _, name := range c.names {
		n += candidateBytes + len(name)
	}
	return n
}

// candidatesKey has what candidates are prepared from: the operands scores and domains, which are compared by identity, and the options
// minGain and minClusters.
type candidatesKey struct {
	// scores is the operand with the scores of the clusters: an array, a set, or an object. domains is the one with the domain of each: an
	// object, or nil if the clusters have none.
	scores, domains ast.Value
	minGain         int64 // scores count as equal within steps of this size, as in choiceOptions; at least 1, with which only equal ones do
	minClusters     int   // how many clusters a domain must have to be used, as in choiceOptions; 0 without domains
}

// prepare computes the candidates from the operands. The error names the operand that has a wrong type or is too large.
func (k candidatesKey) prepare() (*candidates, error) {
	scores, err := scoresOf(k.scores)
	if err != nil {
		return nil, fmt.Errorf("operand 2 (scores): %w", err)
	}
	out := &candidates{names: slices.Collect(maps.Keys(scores))}
	if k.domains == nil {
		out.list = ranking.NewList(scores, k.minGain)
		return out, nil
	}
	domains, err := domainsOf(k.domains)
	if err != nil {
		return nil, fmt.Errorf("operand 3 (domains): %w", err)
	}
	out.domains = ranking.NewDomains(scores, k.minGain, domains, k.minClusters)
	return out, nil
}

var (
	errScores  = fmt.Errorf("must be an array or a set of names, or an object of integers from %d to %d", -maxScore, maxScore)
	errDomains = errors.New("must be an object whose values are strings")
)

// scoresOf returns the score of each cluster by name: the numbers of an object, or 0 for each name in an array or a set.
func scoresOf(v ast.Value) (map[string]int64, error) {
	if err := checkTree(v, 1); err != nil {
		return nil, err
	}
	out := map[string]int64{}
	wrong := false
	switch v := v.(type) {
	case ast.Object:
		wrong = v.Until(func(key, value *ast.Term) bool {
			name, isText := key.Value.(ast.String)
			number, _ := value.Value.(ast.Number)
			score, isInteger := number.Int64()
			out[string(name)] = score
			return !isText || !isInteger || score < -maxScore || score > maxScore
		})
	case collection:
		wrong = v.Until(func(t *ast.Term) bool {
			name, isText := t.Value.(ast.String)
			out[string(name)] = 0
			return !isText
		})
	default:
		wrong = true
	}
	if wrong {
		return nil, errScores
	}
	return out, nil
}

// domainsOf returns the domain of each cluster by the name of the cluster. The error says that the value is no object of strings, or too
// large.
func domainsOf(v ast.Value) (map[string]string, error) {
	if err := checkTree(v, 2); err != nil {
		return nil, err
	}
	object, ok := v.(ast.Object)
	if !ok {
		return nil, errDomains
	}
	out := map[string]string{}
	wrong := object.Until(func(key, value *ast.Term) bool {
		name, isName := key.Value.(ast.String)
		domain, isText := value.Value.(ast.String)
		out[string(name)] = string(domain)
		return !isName || !isText
	})
	if wrong {
		return nil, errDomains
	}
	return out, nil
}

// candidates returns the candidates that are prepared from a key. If the rule cache has the key's values, which are then immutable, the
// candidates are kept for later evaluations.
func (c *choices) candidates(key candidatesKey) (*candidates, error) {
	var v *ruleView
	if c != nil {
		v = c.rules
	}
	if v == nil || !v.has(key.scores) || key.domains != nil && !v.has(key.domains) {
		return key.prepare()
	}
	kept := &v.table.candidates
	if out := kept.get(key); out != nil {
		return out, nil
	}
	out, err := key.prepare()
	if err == nil {
		kept.put(key, out)
	}
	return out, err
}

// has reports whether a value is a collection, and identical to one that the rule cache has, or is going to have, for a rule.
func (v *ruleView) has(value ast.Value) bool {
	if _, ok := value.(interface{ Len() int }); !ok {
		return false
	}
	for _, t := range v.found {
		if t != nil && t.Value == value {
			return true
		}
	}
	return false
}

// candidatesTable keeps at most maxCandidates prepared candidates, each for a candidatesKey, for later evaluations of one policy on the
// same revision of the data. It is safe for concurrent use.
type candidatesTable struct {
	mu   sync.RWMutex
	kept map[candidatesKey]*candidates
}

// get returns the kept candidates of a key; nil for none.
func (t *candidatesTable) get(key candidatesKey) *candidates {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.kept[key]
}

// put keeps the candidates of a key. If there are maxCandidates already, it drops these first.
func (t *candidatesTable) put(key candidatesKey, value *candidates) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil || len(t.kept) >= maxCandidates {
		t.kept = map[candidatesKey]*candidates{}
	}
	t.kept[key] = value
}

// clear drops all candidates, so that the values of rules from which they were prepared can be freed when the rule cache drops these.
func (t *candidatesTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = nil
}
