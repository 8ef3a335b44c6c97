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

package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

const (
	// maxName is the maximum length of names. Open Cluster Management uses them as values of labels, and KubeFleet accepts no
	// longer ones.
	maxName = 63
	// maxKind is the maximum length of the kind within a name.
	maxKind = 30
)

// NameOf returns the name of the delivered object for a placed object. If a system needs several, their names begin with it. It does not
// hold for a system of NativeSystem.
func NameOf(object Object) string { return deliveredName(object) }

// suffixes matches what the names of delivered objects have after the result of NameOf, and nativeSuffixes what they have after the name of
// a placed object of a kind of NativeSystem.
var suffixes, nativeSuffixes = regexp.MustCompile(`^((-decision)?-[0-9]+)?$`), regexp.MustCompile(`^-decision-[0-9]+$`)

// IsNameFor reports whether a name may be that of a delivered object of a placed object, in any system. It looks at the name alone.
func IsNameFor(name string, placed Object) bool {
	base, native := listBase(placed)
	pattern := suffixes
	if native {
		pattern = nativeSuffixes
	}
	rest, found := strings.CutPrefix(name, base)
	return found && pattern.MatchString(rest)
}

// listBase returns the beginning of the names of those delivered objects that list the clusters of a placed object: its own name if it is
// of a kind of NativeSystem, which native reports, and otherwise what NameOf returns.
func listBase(placed Object) (base string, native bool) {
	if _, native = NativeSystem(placed.GroupKind()); native {
		return placed.Name, true
	}
	return deliveredName(placed), false
}

// deliveredName returns what NameOf returns: the placed object's name, its kind, and a hash, such as "web-deployment-1b2c3". The result is
// a DNS label, and differs from those for other objects of the namespace. The hash is longer if the object's name or kind had to be changed
// or shortened. Otherwise it only has to tell kinds of different groups apart.
func deliveredName(object Object) string {
	sum := sha256.Sum256([]byte(object.Group + "\x00" + object.Kind + "\x00" + object.Name))
	digest := hex.EncodeToString(sum[:])

	name, kind := dnsLabel(object.Name), dnsLabel(object.Kind)
	whole := name == object.Name && kind == strings.ToLower(object.Kind)
	if prefix := name + "-" + kind + "-"; whole && len(prefix) <= maxName-5 {
		return prefix + digest[:5]
	}
	kind = cut(kind, maxKind)
	name = cut(name, maxName-len("-")-len(kind)-len("-")-10)
	// An object of RBAC can have a name without any character of a DNS label.
	return strings.TrimLeft(name+"-"+kind+"-"+digest[:10], "-")
}

// dnsLabel returns a text in lower case in which "-" replaces each character that a DNS label can't have, without "-" at its ends. It does
// not shorten the text.
func dnsLabel(text string) string {
	replaced := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(replaced, "-")
}

// cut shortens a DNS label to a maximum length. The result does not end with "-".
func cut(label string, length int) string {
	return strings.TrimRight(label[:min(len(label), length)], "-")
}
