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

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ranges are what ranges.yaml holds.
type ranges struct {
	Ranges []bounds `json:"ranges"`
}

// bounds say what a figure should be.
type bounds struct {
	// Name is short, and the range's own.
	Name string `json:"name"`
	// What is measured, and Target what it is to reach, in words.
	What   string `json:"what"`
	Target string `json:"target"`
	// Of is the benchmark, and Unit the one of its figures that counts.
	Of   string `json:"of"`
	Unit string `json:"unit"`
	// To is the benchmark by whose figure Of's is divided; empty for Of's alone.
	To string `json:"to,omitempty"`
	// Less is the benchmark whose figure is subtracted from Of's and To's before the division, so that the ratio is of what
	// both add to it; empty for none.
	Less string `json:"less,omitempty"`
	// Package has the benchmarks; empty for ./test/bench, and for ./test/bench/endtoend by the benchmarks' names.
	Package string `json:"package,omitempty"`
	// AtLeast and AtMost are what is asserted, which is less than Target asks for: machines are busy. A figure without
	// them is reported alone.
	AtLeast float64 `json:"atLeast,omitempty"`
	AtMost  float64 `json:"atMost,omitempty"`
	// Awaits says what is missing until the bounds can be asserted; empty for nothing.
	Awaits string `json:"awaits,omitempty"`
}

func readRanges(path string) ([]bounds, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out ranges
	if err := yaml.UnmarshalStrict(raw, &out); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	seen := map[string]bool{}
	for _, b := range out.Ranges {
		switch {
		case b.Name == "" || seen[b.Name] || b.What == "" || b.Target == "" || b.Of == "" || b.Unit == "":
			return nil, fmt.Errorf("reading %s: range %q lacks a field, or is there twice", path, b.Name)
		case b.Less != "" && b.To == "":
			return nil, fmt.Errorf("reading %s: range %q: less is for ratios; name the other benchmark in to", path, b.Name)
		case b.bounded() && b.To == "" && strings.Contains(b.Unit, "ns"):
			return nil, fmt.Errorf("reading %s: range %q: a time depends on the machine; assert a ratio", path, b.Name)
		}
		seen[b.Name] = true
	}
	return out.Ranges, nil
}

func (b bounds) bounded() bool { return b.AtLeast != 0 || b.AtMost != 0 }

// asserted reports whether a check judges the range.
func (b bounds) asserted() bool { return b.bounded() && b.Awaits == "" }

// benchmarks are those that have to be run for it.
func (b bounds) benchmarks() []string {
	return slices.DeleteFunc([]string{b.Of, b.To, b.Less}, func(name string) bool { return name == "" })
}

// pkg is the package whose test binary has the benchmarks.
func (b bounds) pkg() string { return cmp.Or(b.Package, inParts) }

// value is the median of what was measured, or of the ratios of the rounds.
func (b bounds) value(f figures) float64 {
	of := f[b.Of][b.Unit]
	if b.To != "" {
		to := f[b.To][b.Unit]
		if b.Less != "" {
			of, to = difference(of, f[b.Less][b.Unit]), difference(to, f[b.Less][b.Unit])
		}
		of = ratio(of, to)
	}
	return median(of)
}

// holds reports whether a value is within the bounds. One that was not measured is not.
func (b bounds) holds(value float64) bool {
	return !math.IsNaN(value) && (b.AtLeast == 0 || value >= b.AtLeast) && (b.AtMost == 0 || value <= b.AtMost)
}

// asserts says in words what is asserted.
func (b bounds) asserts() string {
	unit := b.Unit
	if b.To != "" {
		unit = ""
	}
	var parts []string
	if b.AtLeast != 0 {
		parts = append(parts, "at least "+text(b.AtLeast, unit))
	}
	if b.AtMost != 0 {
		parts = append(parts, "at most "+text(b.AtMost, unit))
	}
	return strings.Join(parts, ", ")
}

// shown is a value as results show it.
func (b bounds) shown(value float64) string {
	if b.To != "" {
		if math.IsNaN(value) {
			return text(value, "")
		}
		return text(value, "") + " times"
	}
	return text(value, b.Unit)
}
