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

package rollout

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Versions as a replica may find them.
var (
	errBroken  = errors.New("does not compile")
	decides    = VersionFacts{Version: "v"}
	incomplete = VersionFacts{Incomplete: true}
	refused    = VersionFacts{Err: errBroken}
	absent     = VersionFacts{Err: fmt.Errorf("revision 1: %w", ErrNotStored)}
	// notServed is a newest version that reads types which are not served.
	notServed = VersionFacts{Err: errors.New("not served"), Incomplete: true}
)

type versions = map[Ref]VersionFacts

// Positions of the rollout of the digest "v-s", whose version is revision 2 after revision 1.
var (
	midst = Position{Digest: "v-s", Revision: 2, Reached: 1, Previous: 1}
	begun = Position{Digest: "v-s", Revision: 2, Reached: 1}
	done  = Position{Digest: "v-s", Revision: 2, Reached: 3, Complete: true}
	back  = Position{Digest: "v-s", Revision: 2, rolledBack: true}
	// afterComplete and inMidst are the same of another version than the one in the spec, and otherStages those of other stages.
	afterComplete = Position{Digest: "w-s", Revision: 2, Complete: true}
	inMidst       = Position{Digest: "w-s", Revision: 2, Reached: 1, Previous: 1}
	otherStages   = Position{Digest: "w-t", Revision: 2, Reached: 1, Previous: 1}
)

func load(ref Ref) Choice { return Choice{Load: ref} }

func inAll(ref Ref) Choice { return Choice{Target: ref, InForce: InForce{Complete: true}} }

// of returns a choice with the digest of the version that is in force everywhere.
func of(c Choice, digest string) Choice {
	c.InForce.Digest = digest
	return c
}

func because(c Choice, err error) Choice {
	c.Err = err
	return c
}

const (
	advice     = "set spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout"
	elsewhere  = "; that revision has to decide in the stages that the rollout has not reached: " + advice
	lostAtAll  = "; that revision was in force everywhere last, and has to decide until a rollout begins: " + advice + " to put the version in the spec in force everywhere"
	notStored1 = "revision 1: the revision is not stored"
)

func TestChooseWithoutStages(t *testing.T) {
	kept := KeptFacts{Exists: true, InForce: InForce{Complete: true}}
	for name, tc := range map[string]struct {
		kept     KeptFacts
		versions versions
		want     Choice
	}{
		"the newest":                              {kept, versions{Newest: decides, Earlier: decides}, inAll(Newest)},
		"asks for earlier ones":                   {kept, versions{Newest: refused}, load(Earlier)},
		"asks for the stored one":                 {kept, versions{Newest: refused, Earlier: absent}, load(LastInForce)},
		"does not ask for it if others are known": {kept, versions{Newest: refused, Earlier: refused}, because(inAll(Kept), errBroken)},
		"the earlier one":                         {kept, versions{Newest: refused, Earlier: decides}, because(inAll(Earlier), errBroken)},
		"the stored one":                          {kept, versions{Newest: refused, Earlier: absent, LastInForce: decides}, because(inAll(LastInForce), errBroken)},
		"an incomplete one":                       {kept, versions{Newest: refused, Earlier: incomplete}, because(inAll(Earlier), errBroken)},
		"an incomplete stored one":                {kept, versions{Newest: refused, Earlier: absent, LastInForce: incomplete}, because(inAll(LastInForce), errBroken)},
		"what is in force":                        {kept, versions{Newest: refused, Earlier: refused}, because(inAll(Kept), errBroken)},
		"nothing":                                 {KeptFacts{}, versions{Newest: refused, Earlier: absent, LastInForce: absent}, because(inAll(Lost), errBroken)},
		"nothing, and the stored one fails": {
			KeptFacts{}, versions{Newest: refused, Earlier: absent, LastInForce: {Err: errors.New("it was: busy")}},
			because(inAll(Lost), errors.New("does not compile; it was: busy")),
		},
		"a complete one rather than the newest":       {kept, versions{Newest: notServed, Earlier: decides}, because(inAll(Earlier), notServed.Err)},
		"a stored one rather than the newest":         {kept, versions{Newest: notServed, Earlier: absent, LastInForce: decides}, because(inAll(LastInForce), notServed.Err)},
		"the newest rather than an incomplete one":    {kept, versions{Newest: notServed, Earlier: incomplete}, inAll(Newest)},
		"the newest although it lacks types, at last": {KeptFacts{}, versions{Newest: notServed, Earlier: absent, LastInForce: absent}, inAll(Newest)},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, tc.want, Choose(ChoiceFacts{Kept: tc.kept, Versions: tc.versions}))
		})
	}
}

func TestChooseInStages(t *testing.T) {
	unstaged := KeptFacts{Exists: true, InForce: InForce{Digest: "u", Complete: true}}
	staged := KeptFacts{Exists: true, InForce: InForce{Digest: "w-s", Reached: 1}}
	keeps := func(f KeptFacts, err error) Choice { return Choice{Target: Kept, InForce: f.InForce, Err: err} }
	selected := func(err string) Choice {
		c := of(inAll(1), "v")
		c.InForce.Revision = 1
		if err != "" {
			c.Err = errors.New(err)
		}
		return c
	}
	reaches := func(target, before Ref, digest string) Choice {
		return Choice{Target: target, Before: before, InForce: InForce{Digest: digest, Reached: 1}}
	}
	notSelected := errors.New("spec.rollout.revision: " + notStored1 + "; status.rollout.revisions has the revisions that are stored")
	for name, tc := range map[string]struct {
		revision int64
		position Position
		kept     KeptFacts
		versions versions
		want     Choice
	}{
		"asks for a selected revision":              {1, midst, staged, versions{Newest: decides}, load(1)},
		"a selected revision":                       {1, midst, staged, versions{Newest: decides, 1: decides}, selected("")},
		"a selected revision, while newest fails":   {1, midst, staged, versions{Newest: refused, 1: decides}, selected("does not compile")},
		"a selected revision is lost":               {1, midst, staged, versions{Newest: decides, 1: absent}, keeps(staged, notSelected)},
		"a selected revision is lost at the start":  {1, done, KeptFacts{}, versions{Newest: decides, 1: absent, 2: decides}, because(of(inAll(2), "v"), notSelected)},
		"the newest is complete":                    {0, done, staged, versions{Newest: decides}, Choice{Target: Newest, InForce: InForce{Digest: "v-s", Reached: 3, Complete: true}}},
		"the newest in stages, no version before":   {0, begun, staged, versions{Newest: decides}, reaches(Newest, None, "v-s")},
		"asks for the version before":               {0, midst, staged, versions{Newest: decides}, load(1)},
		"the newest in stages":                      {0, midst, staged, versions{Newest: decides, 1: decides}, reaches(Newest, 1, "v-s")},
		"the version before is lost at the start":   {0, midst, KeptFacts{}, versions{Newest: decides, 1: absent}, because(reaches(Newest, Lost, "v-s"), errors.New(notStored1+elsewhere))},
		"the version before is lost, something is":  {0, midst, unstaged, versions{Newest: decides, 1: absent}, keeps(unstaged, errors.New(notStored1+elsewhere))},
		"and another rollout is in force":           {0, midst, staged, versions{Newest: decides, 1: absent}, keeps(staged, errors.New(notStored1+elsewhere))},
		"and the same rollout is in force":          {0, midst, KeptFacts{Exists: true, InForce: InForce{Digest: "v-s"}}, versions{Newest: decides, 1: absent}, because(reaches(Newest, Lost, "v-s"), errors.New(notStored1+elsewhere))},
		"and what is in force is lost, too":         {0, midst, KeptFacts{Exists: true, InForce: InForce{Digest: "w-s"}, Lost: true}, versions{Newest: decides, 1: absent}, because(reaches(Newest, Lost, "v-s"), errors.New(notStored1+elsewhere))},
		"the status is not of the newest":           {0, inMidst, staged, versions{Newest: decides}, keeps(staged, nil)},
		"after a rollback":                          {0, back, staged, versions{Newest: decides}, keeps(staged, nil)},
		"the newest fails":                          {0, midst, staged, versions{Newest: refused}, keeps(staged, errBroken)},
		"the newest lacks types":                    {0, midst, staged, versions{Newest: notServed}, keeps(staged, notServed.Err)},
		"started in the midst of another":           {0, inMidst, KeptFacts{}, versions{Newest: decides, 2: decides, 1: decides}, reaches(2, 1, "w-s")},
		"asks for the version of another rollout":   {0, inMidst, KeptFacts{}, versions{Newest: decides}, load(2)},
		"asks for the version before another":       {0, inMidst, KeptFacts{}, versions{Newest: decides, 2: decides}, load(1)},
		"started while a version is lost":           {0, inMidst, KeptFacts{Exists: true, Lost: true}, versions{Newest: decides, 2: decides, 1: absent}, because(reaches(2, Lost, "w-s"), errors.New(notStored1+elsewhere))},
		"of another, only the one before is stored": {0, inMidst, KeptFacts{}, versions{Newest: refused, 2: refused, 1: decides}, because(of(inAll(1), "v"), errBroken)},
		"started with other stages":                 {0, otherStages, KeptFacts{}, versions{Newest: decides, 1: decides}, of(inAll(1), "v")},
		"started after a complete rollout":          {0, afterComplete, KeptFacts{}, versions{Newest: decides, 2: decides}, of(inAll(2), "v")},
		"asks for the version of a complete one":    {0, afterComplete, KeptFacts{}, versions{Newest: decides}, load(2)},
		"asks for the one in force everywhere last": {0, afterComplete, KeptFacts{}, versions{Newest: decides, 2: absent}, load(LastInForce)},
		"which is the one of the status":            {0, afterComplete, KeptFacts{}, versions{Newest: decides, 2: absent, LastInForce: {Version: "w"}}, of(inAll(LastInForce), "w")},
		"which has its number":                      {0, afterComplete, KeptFacts{}, versions{Newest: decides, 2: absent, LastInForce: {Number: 2, Version: "x"}}, of(inAll(LastInForce), "x")},
		"which is another one":                      {0, afterComplete, KeptFacts{}, versions{Newest: decides, 2: absent, LastInForce: {Number: 7, Version: "x"}}, because(inAll(Lost), errors.New(notStored1+lostAtAll))},
		"which is not stored":                       {0, afterComplete, KeptFacts{}, versions{Newest: decides, 2: absent, LastInForce: absent}, because(inAll(Lost), errors.New(notStored1+lostAtAll))},
		"which can't decide":                        {0, afterComplete, KeptFacts{}, versions{Newest: decides, 2: absent, LastInForce: {Err: errBroken, Number: 2}}, because(inAll(Lost), errors.New("does not compile"+lostAtAll))},
		"no status, the stages are new":             {0, Position{}, KeptFacts{}, versions{Newest: decides, LastInForce: decides}, of(inAll(LastInForce), "v")},
		"no status, asks":                           {0, Position{}, KeptFacts{}, versions{Newest: decides}, load(LastInForce)},
		"no status, and the stored one can't decide": {
			0, Position{}, KeptFacts{}, versions{Newest: decides, LastInForce: refused}, because(inAll(Lost), errors.New("does not compile"+lostAtAll)),
		},
		"the first version":                         {0, Position{}, KeptFacts{}, versions{Newest: decides, LastInForce: absent}, Choice{Target: None}},
		"the first version fails":                   {0, Position{}, KeptFacts{}, versions{Newest: refused, LastInForce: absent}, because(Choice{Target: Lost}, errBroken)},
		"the first one failed in another's stages":  {0, Position{Digest: "w-s", Revision: 2, Reached: 1}, KeptFacts{}, versions{Newest: refused, 2: absent}, because(Choice{Target: Lost, InForce: InForce{Reached: 1}}, errors.New("does not compile; "+notStored1))},
		"the first one is lost in another's stages": {0, Position{Digest: "w-s", Revision: 2, Reached: 1}, KeptFacts{}, versions{Newest: decides, 2: absent}, because(Choice{Target: Lost, InForce: InForce{Reached: 1}}, absent.Err)},
		"the newest fails, and one is lost in another's stages": {
			0, inMidst, KeptFacts{}, versions{Newest: refused, 2: decides, 1: absent}, because(reaches(2, Lost, "w-s"), errors.New("does not compile; "+notStored1+elsewhere)),
		},
		"another first one":           {0, Position{Digest: "w-t", Revision: 2, Reached: 1}, KeptFacts{}, versions{Newest: decides}, Choice{Target: None}},
		"a status without a revision": {0, Position{Digest: "w-s", Reached: 1}, KeptFacts{}, versions{Newest: decides}, because(Choice{Target: Lost, InForce: InForce{Reached: 1}}, errors.New("revision 0: the revision is not stored"))},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, tc.want, Choose(ChoiceFacts{Staged: true, Digest: "v-s", Revision: tc.revision, Position: tc.position, Kept: tc.kept, Versions: tc.versions}))
		})
	}
}

func TestChooseWaitsForData(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		data DataFacts
		want bool
	}{
		"nothing is known":             {DataFacts{}, false},
		"incomplete":                   {DataFacts{Held: true, Until: now.Add(1)}, true},
		"complete":                     {DataFacts{Held: true, Complete: true, Until: now.Add(1)}, false},
		"for too long":                 {DataFacts{Held: true, Until: now}, false},
		"nothing decides in the while": {DataFacts{Until: now.Add(1)}, false},
	} {
		if got := Choose(ChoiceFacts{Now: now, Data: tc.data, Versions: versions{Newest: decides}}); got.Waits != tc.want || got.Target != Newest {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestStores checks that the leader stores what decides everywhere, and what can decide.
func TestStores(t *testing.T) {
	for name, tc := range map[string]struct {
		staged         bool
		newest         VersionFacts
		choice         Choice
		last, numbered bool
	}{
		"in force everywhere":           {false, decides, inAll(Newest), true, false},
		"although it lacks types":       {false, notServed, inAll(Newest), false, false},
		"it waits":                      {false, decides, Choice{Target: Newest, InForce: InForce{Complete: true}, Waits: true}, false, false},
		"another one decides":           {false, refused, inAll(Earlier), false, false},
		"its rollout is complete":       {true, decides, inAll(Newest), true, true},
		"in the midst":                  {true, decides, Choice{Target: Newest, Before: 1}, false, true},
		"a revision is selected":        {true, decides, inAll(1), false, true},
		"it can't decide, with stages":  {true, refused, inAll(Kept), false, false},
		"it lacks types, with stages":   {true, notServed, inAll(Kept), false, false},
		"it has not begun, with stages": {true, decides, inAll(Kept), false, true},
	} {
		f := ChoiceFacts{Staged: tc.staged, Versions: versions{Newest: tc.newest}}
		if last, numbered := f.Stores(tc.choice); last != tc.last || numbered != tc.numbered {
			t.Errorf("%s: got %t and %t, want %t and %t", name, last, numbered, tc.last, tc.numbered)
		}
	}
}

func compare(t *testing.T, want, got Choice) {
	t.Helper()
	text := cmp.Transformer("text", func(err error) string { return err.Error() })
	if diff := cmp.Diff(want, got, cmp.FilterValues(func(a, b error) bool { return a != nil && b != nil }, text)); diff != "" {
		t.Errorf("choice (-want +got):\n%s", diff)
	}
}

// TestChooseNamesOnlyWhatIsLoaded chooses by random facts until nothing has to be loaded. It checks what loaders rely on: a choice
// names only versions that can decide, asks for each version once, and keeps only what exists.
func TestChooseNamesOnlyWhatIsLoaded(t *testing.T) {
	positions := []Position{{}, midst, begun, done, back, afterComplete, inMidst, otherStages, {Digest: "w-s", Reached: 1}}
	seen := map[Ref]int{}
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		found := []VersionFacts{decides, incomplete, refused, absent}
		f := ChoiceFacts{
			Staged: r.IntN(2) == 0, Digest: "v-s", Revision: int64(r.IntN(2)), Position: positions[r.IntN(len(positions))],
			Kept:     KeptFacts{Exists: r.IntN(2) == 0, InForce: InForce{Digest: []string{"v-s", "w-s", "u"}[r.IntN(3)]}, Lost: r.IntN(3) == 0},
			Versions: versions{Newest: []VersionFacts{decides, refused, notServed}[r.IntN(3)]},
		}
		choice := Choose(f)
		for ; choice.Load != None; choice = Choose(f) {
			if _, loaded := f.Versions[choice.Load]; loaded {
				t.Fatalf("seed %d: asks for %d again: %+v", seed, choice.Load, f)
			}
			f.Versions[choice.Load] = found[r.IntN(len(found))]
		}
		for _, ref := range []Ref{choice.Target, choice.Before} {
			seen[ref]++
			v, loaded := f.Versions[ref]
			switch ref {
			case None, Lost:
			case Kept:
				if !f.Kept.Exists || f.Staged && f.Kept.Lost {
					t.Errorf("seed %d: keeps what must not stay: %+v", seed, f)
				}
			default:
				if !loaded || v.Err != nil && !v.Incomplete {
					t.Errorf("seed %d: %d can't decide: %+v, %+v", seed, ref, choice, f)
				}
			}
		}
		if choice.Target == None && f.Versions[Newest].Err != nil {
			t.Errorf("seed %d: no version, although the newest one fails: %+v", seed, f)
		}
		if (choice.Target == Lost || choice.Before == Lost) && choice.Err == nil {
			t.Errorf("seed %d: fails without a reason: %+v", seed, f)
		}
	}
	for _, ref := range []Ref{None, Newest, LastInForce, Earlier, Kept, Lost, 1, 2} {
		if seen[ref] < 20 {
			t.Errorf("version %d is chosen only %d times", ref, seen[ref])
		}
	}
}
