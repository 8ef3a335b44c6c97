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

package main

import "regexp"

// skipped matches the files without text that a contributor writes: generated files, whose sources are checked, recorded
// test data, and the rules and their test.
var skipped = regexp.MustCompile(`^(bundle|charts/berth/crds|charts/berth/files|catalog/berth|config/crd/bases)/` +
	`|^internal/console/assets/|\.gen\.ts$|^config/rbac/role\.yaml$|^docs/(metrics|reference)\.md$|/zz_generated\.` +
	`|(^|/)testdata/|^hack/language/(rules|check_test)\.go$`)

// The parts of files that rules apply to. All text of the console's pages, in web, counts as comments, literals and messages.
const (
	comments part = 1 << iota // comments in Go files
	literals                  // string literals in Go files
	messages                  // those of literals that are not in tests, most of which users see
	pages                     // Markdown
	sources                   // YAML, Rego, shell scripts, and Makefile

	prose = comments | messages | pages | sources
)

// rules lists what contributors do not write, and what they write instead. The words of a phrase may be on two lines.
// A phrase is a regular expression that matches whole words.
//
// Add what a reader stumbled over twice. A phrase that is common in plain English needs words around it.
var rules = []rule{
	{phrase: `not to be had|to be had`, in: prose | literals, instead: `"unavailable", "not found", "forbidden", or "not served"`},
	{phrase: `known not to`, in: prose | literals, instead: `"known to be un...", or what is known`},
	{phrase: `fares?`, in: prose | literals, instead: `the state, such as "fails" or "is unavailable"`},
	{phrase: `anew`, in: prose, instead: `"again"`},
	{phrase: `ask(s|ed|ing)? ([a-z]+ )?about`, in: prose, instead: `"queries" or "requests"`},
	{phrase: `(is|are|was|were) about`, unless: `\w+ about (to|a|an|half|one|two|three|twice|the size|the same|as|\d+)`, in: prose,
		instead: `"matches", "covers", or "concerns"`},
	{phrase: `puts? (it |them |that |this )?right`, in: prose, instead: `"remediates" or "corrects"`},
	{phrase: `what differs`, in: prose, instead: `"the violation" or "the difference"`},
	{phrase: `somebody( else)?|someone else`, in: prose, instead: `the actor, such as "another client"`},
	{phrase: `nobody`, in: prose, instead: `the actor, such as "no client" or "no controller"`},
	{phrase: `who(mso|so|m)?ever`, in: prose, instead: `the actor, such as "the caller" or "a client that"`},
	{phrase: `(?-i:Who) [a-z]+`, in: comments | messages | sources, instead: `the actor as the subject, such as "The caller that ..."`},
	{phrase: `stands`, unless: `stands (for|in)`, in: prose, instead: `"is in force", "is", or "remains"`},
	{phrase: `befalls?`, in: prose, instead: `"happens to" or "affects"`},
	{phrase: `in vain`, in: prose, instead: `the result, such as "and fails"`},
	{phrase: `comes? to rest`, in: prose, instead: `"is stable"`},
	{phrase: `(every|any)(body|one)`, in: prose, instead: `the actor, such as "every client" or "all users"`},
	{phrase: `whom`, in: comments | messages | sources, instead: `the actor, such as "the client that"`},
	{phrase: `says whether`, in: comments | messages, instead: `"reports whether"`},
	{phrase: `in effect`, in: prose, instead: `"in force" for a policy version`},
	{phrase: `is (seen|said) to be`, in: prose, instead: `the actor and the verb`},
	{phrase: `well again`, in: prose, instead: `"recovered"`},
	{phrase: `(is|are) to have`, in: prose, instead: `"needs" or "gets"`},
	{phrase: `hooked`, in: prose, instead: `"matched", or which webhook receives it`},
	{phrase: `for want of`, in: prose, instead: `"because ... is missing"`},
	{phrase: `now and then`, in: messages | pages | sources, instead: `how often, or the state, such as "its circuit breaker is open"`},
}

// exceptions lists the phrases that files may contain although a rule bans them.
var exceptions = []exception{
	{files: `test/conformance/corpus/.*`, phrase: `nobody|somebody`, reason: "names of test cases and annotations"},
	{files: `internal/match/protected\.go`, phrase: `hooked`, reason: "name of a match condition"},
}

// bannedNames maps words of identifiers and of names of files to what contributors write instead.
var bannedNames = map[string]string{
	"fare":     `the state, such as "failed"`,
	"fares":    `the state, such as "failed"`,
	"fed":      `"replicated" or "pushed"`,
	"holdings": `"manifest"`,
	"seat":     `"slot"`,
	"seats":    `"slots"`,
	"standing": `"existing", "state", or what it is`,
	"supply":   `"push" or "replicate"`,
	"whoever":  `the actor, such as "caller"`,
}

// foreignNames lists the identifiers of other projects that comments name, and that nothing else in the repository has.
var foreignNames = []string{
	"countPodsMatchSelector",
	"DevTools",
	"findNodesThatFitPod",
	"legacyObjectCountAliases",
	"NodeDeclaredFeatures",
	"shouldCreateNewResourceSnapshotNow",
	"updateWithPod",
	"ValidateJobUpdate",
}
