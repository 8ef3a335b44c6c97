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

package placement_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// signedRecord is the part of a record that its signature covers. It is frozen: during an upgrade, and after a rollback, replicas of two
// versions read each other's records.
type signedRecord struct {
	Annotations map[string]signedEntry `json:"annotations,omitempty"`
	Labels      map[string]signedEntry `json:"labels,omitempty"`
	Scheduling  map[string]signedEntry `json:"scheduling,omitempty"`
	Affinity    *signedEntry           `json:"affinity,omitempty"`
	Signature   string                 `json:"signature,omitempty"`
}

type signedEntry struct {
	Requested *string `json:"requested,omitempty"`
	By        string  `json:"by,omitempty"`
	Set       string  `json:"set"`
	Value     *string `json:"value,omitempty"`
}

type signedIdentity struct{ Group, Kind, Namespace, Name, GenerateName string }

// sign returns the signature for the Deployment web in namespace default.
func (r signedRecord) sign(t *testing.T) string {
	t.Helper()
	r.Signature = ""
	return macOf(t, struct {
		ID     signedIdentity
		Record signedRecord
	}{signedIdentity{Group: "apps", Kind: "Deployment", Namespace: "default", Name: "web"}, r})
}

// macOf returns the HMAC of a value's JSON with the key of the tests' keyring.
func macOf(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(strings.Repeat("k", placement.KeySize)))
	mac.Write(text)
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
}

// readSigned returns the signed part of the object's record, and checks the signature.
func readSigned(t *testing.T, obj *unstructured.Unstructured) signedRecord {
	t.Helper()
	var r signedRecord
	if err := json.Unmarshal([]byte(recordOf(obj)), &r); err != nil {
		t.Fatalf("record %s: %v", recordOf(obj), err)
	}
	if r.Signature != r.sign(t) {
		t.Fatalf("the signature of the record %s is not that of the frozen fields", recordOf(obj))
	}
	return r
}

// edited returns a copy of the object with the members in its record. nil removes a member.
func edited(t *testing.T, obj *unstructured.Unstructured, members map[string]json.RawMessage) *unstructured.Unstructured {
	t.Helper()
	var record map[string]json.RawMessage
	if err := json.Unmarshal([]byte(recordOf(obj)), &record); err != nil {
		t.Fatal(err)
	}
	for name, value := range members {
		if record[name] = value; value == nil {
			delete(record, name)
		}
	}
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	out := obj.DeepCopy()
	setRecord(out, string(text))
	return out
}

// withoutExtension returns a copy of the object whose record has no extension.
func withoutExtension(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	return edited(t, obj, map[string]json.RawMessage{"extension": nil, "extensionSignature": nil})
}

func extensionOf(t *testing.T, obj *unstructured.Unstructured) (text json.RawMessage, signature string) {
	t.Helper()
	var record struct {
		Signature, ExtensionSignature string
		Extension                     json.RawMessage
	}
	if err := json.Unmarshal([]byte(recordOf(obj)), &record); err != nil {
		t.Fatal(err)
	}
	return record.Extension, record.ExtensionSignature
}

// TestRequestedListIsSigned checks that the signed part of a record that has an extension has the developer's list.
func TestRequestedListIsSigned(t *testing.T) {
	const asked = `["ap","eu","us"]`
	tests := map[string]struct {
		asked string
		by    policies
	}{
		"TwoPolicies": {asked, policies{allows(t, "a", []string{"eu", "us"}), allows(t, "b", []string{"ap", "eu"})}},
		"Manual":      {asked, policies{with(allows(t, "a", []string{"eu", "x"}), manual)}},
		"ManualAgree": {asked, policies{with(allows(t, "a", []string{"ap", "eu", "us", "x"}), manual)}},
		"Override":    {asked, policies{with(allows(t, "a", []string{"eu"}), overrides), allows(t, "b", []string{"eu", "us"})}},
		"Unasked":     {"", policies{allows(t, "a", []string{"eu", "us"}), allows(t, "b", []string{"ap", "eu"})}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stored := decide(t, asking(tc.asked), nil, tc.by...).Object
			requested := readSigned(t, stored).Annotations[clustersKey].Requested
			if (requested == nil) != (tc.asked == "") || requested != nil && *requested != tc.asked {
				t.Errorf("requested %v in record %s", requested, recordOf(stored))
			}
			if text, _ := extensionOf(t, stored); text == nil {
				t.Errorf("the record %s has no extension, so that the test shows nothing", recordOf(stored))
			}
		})
	}
}

// TestRecordsWithoutExtension checks that a record from which a client removed the extension is valid, and has the developer's list.
func TestRecordsWithoutExtension(t *testing.T) {
	const asked = `["ap","eu","us"]`
	a, b := allows(t, "a", []string{"eu", "us"}), allows(t, "b", []string{"ap", "eu"})
	stored := decide(t, asking(asked), nil, a, b).Object
	dropped := withoutExtension(t, stored)
	if got := remediated(t, dropped, a, b).Object; recordOf(got) != recordOf(stored) {
		t.Errorf("a record that was written again: %s, want %s", recordOf(got), recordOf(stored))
	}
	if got := remediated(t, dropped, allows(t, "a", nil), allows(t, "b", nil)).Object.GetAnnotations()[clustersKey]; got != asked {
		t.Errorf("the developer's list is %q", got)
	}
	// A held policy whose last list is unknown neither moves the object nor lets other policies add clusters.
	if got := remediated(t, dropped, allows(t, "a", []string{"ap", "eu", "us"}), with(allows(t, "b", []string{"us"}), manual)).Object.GetAnnotations()[clustersKey]; got != `["eu","us"]` {
		t.Errorf("clusters beside a held policy: %q", got)
	}
	undecided := with(allows(t, "a", nil), failing)
	if got := remediated(t, dropped, undecided, allows(t, "b", []string{"ap", "eu", "us"})).Object.GetAnnotations()[clustersKey]; got != `["eu"]` {
		t.Errorf("clusters beside a policy that can't decide: %q", got)
	}
}

// TestExtensionsOfRecords checks that an extension is only valid with the record that it was signed for.
func TestExtensionsOfRecords(t *testing.T) {
	a, b := allows(t, "a", []string{"eu", "us"}), allows(t, "b", []string{"ap", "eu"})
	stored := decide(t, asking(`["ap","eu","us"]`), nil, a, b).Object
	text, signature := extensionOf(t, stored)
	var main struct{ Signature string }
	if err := json.Unmarshal([]byte(recordOf(stored)), &main); err != nil {
		t.Fatal(err)
	}
	// The format of an extension's signature is frozen as well.
	sign := func(text string) json.RawMessage {
		return json.RawMessage(`"` + macOf(t, struct{ Extension, Of string }{text, main.Signature}) + `"`)
	}
	if want := string(sign(string(text))); want != `"`+signature+`"` {
		t.Errorf("signature %s of %s, want %s", signature, text, want)
	}
	other := decide(t, asking(`["ap","eu","us"]`), nil, allows(t, "a", []string{"ap", "eu", "us"}), allows(t, "b", []string{"ap", "us"})).Object
	foreign, foreignSignature := extensionOf(t, other)
	const later = `{"clusters":{"a":["eu","us"],"b":["ap","eu"]},"later":[1,{"x":1.0}]}`
	tests := map[string]struct {
		members map[string]json.RawMessage
		// known reports whether the list that policy a allowed is known.
		known bool
	}{
		"Untouched":   {known: true},
		"Stripped":    {members: map[string]json.RawMessage{"extension": nil, "extensionSignature": nil}},
		"Edited":      {members: map[string]json.RawMessage{"extension": json.RawMessage(`{"clusters":{"a":["ap","us"]}}`)}},
		"Unsigned":    {members: map[string]json.RawMessage{"extensionSignature": nil}},
		"OfAnother":   {members: map[string]json.RawMessage{"extension": foreign, "extensionSignature": json.RawMessage(`"` + foreignSignature + `"`)}},
		"NoObject":    {members: map[string]json.RawMessage{"extension": json.RawMessage(`[1]`), "extensionSignature": sign(`[1]`)}},
		"MoreMembers": {members: map[string]json.RawMessage{"later": json.RawMessage(`{"a":1}`)}, known: true},
		"LaterFields": {members: map[string]json.RawMessage{"extension": json.RawMessage(later), "extensionSignature": sign(later)}, known: true},
	}
	undecided, wider := with(allows(t, "a", nil), failing), allows(t, "b", []string{"ap", "eu", "us"})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := edited(t, stored, tc.members)
			want := `["eu"]`
			if tc.known {
				want = `["eu","us"]`
			}
			if got := remediated(t, obj, undecided, wider).Object.GetAnnotations()[clustersKey]; got != want {
				t.Errorf("clusters %q, want %q", got, want)
			}
			if got := remediated(t, obj, allows(t, "a", nil), allows(t, "b", nil)).Object.GetAnnotations()[clustersKey]; got != `["ap","eu","us"]` {
				t.Errorf("the developer's list is %q", got)
			}
			// A client that sends the record with another extension gains nothing.
			if got := decide(t, obj, stored, undecided, wider).Object; got.GetAnnotations()[clustersKey] != `["eu","us"]` {
				t.Errorf("clusters of an update %q", got.GetAnnotations()[clustersKey])
			}
			out := decide(t, obj, stored, a, b).Object
			if diff := cmp.Diff(recordOf(stored), recordOf(out)); diff != "" {
				t.Errorf("record of an update (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExtensionsThatAreReplayed checks that an earlier extension is not valid with the record that replaced its own.
func TestExtensionsThatAreReplayed(t *testing.T) {
	a, b := allows(t, "a", []string{"eu", "us"}), allows(t, "b", []string{"ap", "eu"})
	before := decide(t, asking(`["ap","eu","us"]`), nil, a, b).Object
	stored := remediated(t, before, allows(t, "a", []string{"eu"}), b).Object
	if got, want := readSigned(t, stored), readSigned(t, before); !cmp.Equal(got, want) || recordOf(stored) == recordOf(before) {
		t.Fatalf("the records %s and %s do not differ in their extensions alone", recordOf(before), recordOf(stored))
	}
	undecided, wider := with(allows(t, "a", nil), failing), allows(t, "b", []string{"ap", "eu", "us"})
	next := stored.DeepCopy()
	setRecord(next, recordOf(before))
	if got := decide(t, next, stored, undecided, wider).Object.GetAnnotations()[placementv1.ClustersAnnotation]; got != `["eu"]` {
		t.Errorf("clusters %q", got)
	}
}
