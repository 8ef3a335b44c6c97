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

// Package mistakes is a corpus of what authors of policies and quotas get wrong, and of what Berth must tell them.
//
// Each entry of corpus/*.yaml is one mistake. The suite applies it to a real API server, as kubectl apply does. Berth has to
// refuse it, warn of it, or show within TimeToTell that something is wrong. A mistake that Berth accepts without a word and
// reports as ready is silently green; there must be none. The manifests in correct/*.yaml are the opposite: nothing may be
// said of them.
package mistakes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TimeToTell is how long Berth may take to show a mistake in the status of an object, on a machine that does other work as well.
const TimeToTell = time.Minute

// Outcome is how an author learns of a mistake.
type Outcome string

const (
	// OutcomeRefused is for what kubectl apply fails on.
	OutcomeRefused Outcome = "refused"
	// OutcomeWarned is for what is accepted with a warning.
	OutcomeWarned Outcome = "warned"
	// OutcomeStatus is for what is accepted, and shown in a condition within TimeToTell.
	OutcomeStatus Outcome = "status"
)

// Entry is one mistake. All manifests are YAML with one or more documents. The documents of an entry have names that are
// unique in the entry; namespaces that documents name exist.
type Entry struct {
	// Name identifies the entry in all files. It consists of lower-case letters, digits, and hyphens.
	Name string `json:"name"`
	// Part names the area that the mistake belongs to: an item of the list in README.md, or "general".
	Part string `json:"part"`
	// Before has the manifests that exist before. Berth has decided by them before the next ones are applied.
	Before string `json:"before,omitempty"`
	// Apply has the manifests with the mistake.
	Apply string `json:"apply"`
	// Then has the manifests that are applied after Apply, such as an update; if it is present, it has the mistake, and
	// Apply must succeed.
	Then string `json:"then,omitempty"`
	// Says lists texts that the error or the warnings of the API server must contain. Required unless Outcome is "status".
	Says []string `json:"says,omitempty"`
	// Status is a condition that an object of Apply or Then must get within TimeToTell. Required if Outcome is "status".
	Status *Condition `json:"status,omitempty"`
	// Outcome is how the author learns of the mistake.
	Outcome Outcome `json:"outcome"`
	// Alone has the entry run by itself, because Berth compares its policies with those of other entries, such as those that choose other
	// clusters for the same objects.
	Alone bool `json:"alone,omitempty"`

	// File is the base name of the entry's file.
	File string `json:"-"`
}

// Condition is what a condition must be.
type Condition struct {
	// Condition is the type, as in "Ready".
	Condition string                 `json:"condition"`
	Status    metav1.ConditionStatus `json:"status"`
	// Reason is the reason; any if it is empty.
	Reason string `json:"reason,omitempty"`
	// Message is a part of the message.
	Message string `json:"message,omitempty"`
}

// Parts are the areas of mistakes.
var Parts = []string{"general", "A1", "A2", "A3", "A4", "A5", "A6", "B7", "B8", "B9", "B10", "B11"}

var entryName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Load reads and checks all entries of the directory's files, ordered by file and as they are in it.
func Load(directory string) ([]Entry, error) {
	entries, err := read[Entry](directory, func(e *Entry, file string) error {
		e.File = file
		return e.check()
	})
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, e := range entries {
		if other, found := files[e.Name]; found {
			return nil, fmt.Errorf("%s: the name %s is taken in %s", e.File, e.Name, other)
		}
		files[e.Name] = e.File
	}
	return entries, nil
}

// Correct reads the entries of a directory whose manifests have no mistake: they have a name, a part, Apply, and perhaps
// Before and Alone.
func Correct(directory string) ([]Entry, error) {
	return read[Entry](directory, func(e *Entry, file string) error {
		e.File = file
		if !entryName.MatchString(e.Name) || strings.TrimSpace(e.Apply) == "" || e.Outcome != "" || e.Status != nil || e.Says != nil {
			return fmt.Errorf("%s: a correct entry has name, part, and apply, and perhaps before and alone", e.Name)
		}
		return nil
	})
}

// read decodes the lists in all YAML files of a directory strictly. The function completes and checks one item.
func read[T any](directory string, check func(item *T, file string) error) ([]T, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var out []T
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var items []T
		if err := yaml.UnmarshalStrict(text, &items); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for i := range items {
			if err := check(&items[i], filepath.Base(file)); err != nil {
				return nil, fmt.Errorf("%s: entry %d: %w", file, i+1, err)
			}
		}
		out = append(out, items...)
	}
	return out, nil
}

func (e *Entry) check() error {
	var errs []error
	if !entryName.MatchString(e.Name) {
		errs = append(errs, fmt.Errorf("the name %q has to consist of lower-case letters, digits, and hyphens", e.Name))
	}
	if !slices.Contains(Parts, e.Part) {
		errs = append(errs, fmt.Errorf("the part %q is none of %s", e.Part, strings.Join(Parts, ", ")))
	}
	switch e.Outcome {
	case OutcomeRefused, OutcomeWarned:
		if len(e.Says) == 0 || slices.Contains(e.Says, "") {
			errs = append(errs, errors.New("says must list what the author is told"))
		}
	case OutcomeStatus:
		if e.Status == nil {
			errs = append(errs, errors.New("status must have the condition that shows the mistake"))
		}
	default:
		errs = append(errs, fmt.Errorf("the outcome %q is none of refused, warned, status", e.Outcome))
	}
	if e.Status != nil && (e.Outcome == OutcomeRefused || e.Status.Condition == "" || e.Status.Status == "") {
		errs = append(errs, errors.New("status needs condition and status, and an object that is not refused"))
	}
	if strings.TrimSpace(e.Apply) == "" {
		errs = append(errs, errors.New("apply is required"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	return nil
}

// Objects returns the objects of a manifest. Documents that are no objects, as a mistake may have it, are left out.
func Objects(manifest string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) || err != nil {
			return out
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &obj.Object); err == nil && obj.GetKind() != "" && obj.GetName() != "" {
			out = append(out, obj)
		}
	}
}

// Isolation is what an entry may run beside.
type Isolation int

const (
	// IsolationNone is for entries without objects that policies match: they run beside each other.
	IsolationNone Isolation = iota
	// IsolationNamespace is for entries that keep to namespaces: they run beside each other if the namespaces differ.
	IsolationNamespace
	// IsolationAlone is for all others.
	IsolationAlone
)

// Isolation returns what the entry may run beside. It keeps to namespaces if each of its policies has a namespaceSelector,
// and all else are objects of built-in kinds.
func (e *Entry) Isolation() Isolation {
	if e.Alone {
		return IsolationAlone
	}
	out := IsolationNone
	selective := true
	for _, obj := range Objects(e.Before + "\n---\n" + e.Apply + "\n---\n" + e.Then) {
		switch group := obj.GroupVersionKind().Group; {
		case group == placementv1.GroupVersion.Group:
			_, found, _ := unstructured.NestedMap(obj.Object, "spec", "match", "namespaceSelector")
			selective = selective && (found || obj.GetKind() != "PlacementPolicy")
		case obj.GetKind() == "Namespace":
		case obj.GetNamespace() != "" && (group == "" || group == "apps" || group == "batch"):
			out = max(out, IsolationNamespace)
		default:
			return IsolationAlone
		}
	}
	if out == IsolationNamespace && !selective {
		return IsolationAlone
	}
	return out
}
