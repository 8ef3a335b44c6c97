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

package policy_test

import (
	"errors"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

// remoteSpec returns the spec of a policy with a remote engine at an address. The modules alternate between name and
// Rego.
func remoteSpec(address string, modules ...string) placementv1.PlacementPolicySpec {
	r := &placementv1.Remote{URL: address}
	for i := 0; i < len(modules); i += 2 {
		r.Modules = append(r.Modules, placementv1.RemoteModule{Name: modules[i], Rego: modules[i+1]})
	}
	return placementv1.PlacementPolicySpec{Remote: r}
}

const opaDocument = "https://opa.example:8181/v1/data/placement"

func TestRemoteIsRefused(t *testing.T) {
	with := func(change func(*placementv1.Remote)) placementv1.PlacementPolicySpec {
		s := remoteSpec(opaDocument)
		change(s.Remote)
		return s
	}
	tests := map[string]struct {
		spec placementv1.PlacementPolicySpec
		want []string
	}{
		"NoAddress": {remoteSpec("https://opa.example:x/v1"), []string{`spec.remote.url: berth_remote_error: parse "https://opa.example:x/v1": invalid port ":x" after host`}},
		"Scheme":    {remoteSpec("ftp://opa.example/v1/data/p"), []string{"spec.remote.url: berth_remote_error: must be https://<host>[:<port>]/<path>"}},
		"NoHost":    {remoteSpec("https://:8181/v1/data/p"), []string{"spec.remote.url: berth_remote_error: must be https://<host>[:<port>]/<path>"}},
		"Port":      {remoteSpec("https://opa.example:70000/v1/data/p"), []string{"spec.remote.url: berth_remote_error: 70000 is not a port"}},
		"PlainHTTP": {remoteSpec("http://opa.example/v1/data/p"), []string{"spec.remote.url: berth_remote_error: plain http needs insecure: true"}},
		"User":      {remoteSpec("https://me:secret@opa.example/v1/data/p"), []string{"spec.remote.url: berth_remote_error: must have neither user and password nor query or fragment"}},
		"Query":     {remoteSpec(opaDocument + "?pretty=true"), []string{"spec.remote.url: berth_remote_error: must have neither user and password nor query or fragment"}},
		"NoQuery":   {remoteSpec(opaDocument + "?"), []string{"spec.remote.url: berth_remote_error: must have neither user and password nor query or fragment"}},
		"Fragment":  {remoteSpec(opaDocument + "#x"), []string{"spec.remote.url: berth_remote_error: must have neither user and password nor query or fragment"}},
		"ModulesElsewhere": {
			remoteSpec("https://policies.example/decide", "main", "package p"),
			[]string{"spec.remote.url: berth_remote_error: must have a path below /v1/data or /v0/data, because Berth pushes data or modules to the engine"},
		},
		"ReplicateElsewhere": {
			with(func(r *placementv1.Remote) {
				r.URL, r.Replicate = "https://policies.example/v1/database/p", []placementv1.ReplicatedResource{{Resource: "pods"}}
			}),
			[]string{"spec.remote.url: berth_remote_error: must have a path below /v1/data or /v0/data, because Berth pushes data or modules to the engine"},
		},
		"NoAuthority": {
			with(func(r *placementv1.Remote) { r.CABundle = []byte("ca.crt") }), []string{"spec.remote.caBundle: berth_remote_error: has no certificate in PEM"},
		},
		"BerthsOwnSecrets": {
			with(func(r *placementv1.Remote) {
				r.TokenSecretRef = &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: "berth-intent-key"}}
				r.CASecretRef = &placementv1.CASecretReference{SecretReference: placementv1.SecretReference{Name: "berth-served-kubeconfig"}}
				r.ClientCertificateSecretRef = &placementv1.SecretReference{Name: "berth-webhook-cert"}
			}),
			[]string{
				"spec.remote.tokenSecretRef.name: berth_remote_error: the Secret berth-intent-key is Berth's own, and no engine gets it: name another Secret",
				"spec.remote.caSecretRef.name: berth_remote_error: the Secret berth-served-kubeconfig is Berth's own, and no engine gets it: name another Secret",
				"spec.remote.clientCertificateSecretRef.name: berth_remote_error: the Secret berth-webhook-cert is Berth's own, and no engine gets it: name another Secret",
			},
		},
		"Syntax": {
			remoteSpec(opaDocument, "main", `package p

x := 1`, "lib", `package lib

y := := 1`),
			[]string{
				"spec.remote.modules[1].rego: lib.rego:3:6: rego_parse_error: unexpected assign token",
				"spec.remote.modules[1].rego: lib.rego:3:6: rego_parse_error: unexpected assign token: expected rule value term (e.g., y := <VALUE> { ... })",
			},
		},
		"SyntaxOfTheOldLanguage": {
			remoteSpec(opaDocument, "main", `package p

errors["a"] { true }

errors["b"] { } }`),
			[]string{"spec.remote.modules[0].rego: main.rego:5:15: rego_parse_error: found empty body"},
		},
		"NoPackage": {
			remoteSpec(opaDocument, "main", "# nothing"),
			[]string{"spec.remote.modules[0].rego: main.rego: rego_parse_error: empty module"},
		},
		"BerthsPackage": {
			remoteSpec(opaDocument, "main", `package berth.holdings

x := 1`),
			[]string{"spec.remote.modules[0].rego: main.rego:1:1: berth_contract_error: the package data.berth.holdings is where Berth keeps cluster data: use another one, such as kubernetes.placement"},
		},
		"Recursion": {
			remoteSpec(opaDocument, "main", `package p

z := data.lib.x`, "lib", `package lib

x := y

y := x`),
			[]string{
				"spec.remote.modules[1].rego: lib.rego:3:1: rego_recursion_error: rule data.lib.x is recursive: data.lib.x -> data.lib.y -> data.lib.x",
				"spec.remote.modules[1].rego: lib.rego:5:1: rego_recursion_error: rule data.lib.y is recursive: data.lib.y -> data.lib.x -> data.lib.y",
			},
		},
		"Unsafe": {
			remoteSpec(opaDocument, "main", `package p

errors contains x if input.a == 1`),
			[]string{"spec.remote.modules[0].rego: main.rego:3:17: rego_unsafe_var_error: var x is unsafe"},
		},
		"TooLarge": {
			remoteSpec(opaDocument, "main", "package p\n#"+strings.Repeat("x", 64<<10)),
			[]string{"spec.remote.modules[0].rego: main.rego: berth_size_error: has 65547 bytes, at most 65536 are kept in an engine"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Compile("p", tc.spec)
			list, ok := errors.AsType[*policy.CompileError](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			// Skip the source lines in syntax errors.
			got := slices.DeleteFunc(strings.Split(list.Error(), "\n"), func(line string) bool { return strings.HasPrefix(line, "\t") })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemoteIsLocated(t *testing.T) {
	tests := map[string]struct {
		base string
		v0   bool
	}{
		"https://opa.example/v1/data/p":               {"https://opa.example/", false},
		"https://opa.example/v1/data":                 {"https://opa.example/", false},
		"https://opa.example:8181/v0/data/p/q":        {"https://opa.example:8181/", true},
		"https://opa.example/a%20b%2Fc/v1/data/p":     {"https://opa.example/a%20b%2Fc/", false},
		"https://opa.example/v1/data/v0/data/p":       {"https://opa.example/", false},
		"https://opa.example/v0/data/v1/data/p":       {"https://opa.example/", true},
		"https://[2001:db8::1]:8181/opa/v1/data/p":    {"https://[2001:db8::1]:8181/opa/", false},
		"https://opa.example:80/v1/data/p":            {"https://opa.example:80/", false},
		"https://policies.example/decide":             {},
		"https://policies.example":                    {},
		"https://policies.example/v1/databases/of/v0": {},
	}
	for address, tc := range tests {
		t.Run(address, func(t *testing.T) {
			m, err := policy.Compile("p", remoteSpec(address))
			if err != nil {
				t.Fatal(err)
			}
			base := ""
			if m.Remote.Base != nil {
				base = m.Remote.Base.String()
			}
			if base != tc.base || m.Remote.V0 != tc.v0 || m.Remote.Document.String() != address {
				t.Errorf("it is %s, below %q, v0 %t", m.Remote.Document, base, m.Remote.V0)
			}
			if m.Remote.ModulesDigest != "" || m.Remote.NeedsPush() {
				t.Error("something is supplied")
			}
		})
	}
}

// TestRemoteHasOneAddress checks that different spellings of an engine's URL give one address.
func TestRemoteHasOneAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://OPA.Example:443/v1/data/P":   "https://opa.example/v1/data/P",
		"https://opa.example:/v1/data/p":      "https://opa.example/v1/data/p",
		"https://[2001:DB8::1]:443/v1/data/p": "https://[2001:db8::1]/v1/data/p",
	} {
		m, err := policy.Compile("p", remoteSpec(address))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Remote.Document.String(); got != want || m.Remote.Base.Host != m.Remote.Document.Host {
			t.Errorf("%s is %s, below %s", address, got, m.Remote.Base)
		}
	}
	spec := remoteSpec("http://opa.example:80/v1/data/p")
	spec.Remote.Insecure = true
	if m, err := policy.Compile("p", spec); err != nil || m.Remote.Base.String() != "http://opa.example/" {
		t.Errorf("got %v, %v", m, err)
	}
}

// TestRemoteModulesThatOthersMayKnow checks modules with functions that only the engine may have, or in another version
// of the language.
func TestRemoteModulesThatOthersMayKnow(t *testing.T) {
	tests := map[string]struct {
		modules []string
		want    []string
	}{
		"Sound": {modules: []string{"main", `package p

import data.lib

errors contains "no" if lib.bad(input)`, "lib", `package lib

bad(x) if x.kind == "Pod"`}},
		"OldLanguage": {modules: []string{"main", `package p

errors["no"] { input.kind == "Pod" }`}},
		"BothVersions": {modules: []string{"main", `package p

errors["no"] { data.lib.bad }`, "lib", `package lib

bad if input.kind == "Pod"`}},
		"Effects": {modules: []string{"main", `package p

x := http.send({"method": "get", "url": "https://x.example"})`}},
		"UnknownFunction": {
			modules: []string{"main", `package p

x := acme.lookup(input)`},
			want: []string{"the modules do not compile unless the remote engine has what they lack: main.rego:3: rego_type_error: undefined function acme.lookup"},
		},
		"TooManyRules": {
			modules: []string{"main", "package p\n" + strings.Repeat("x contains 1\n", 300), "other", "package q\n" + strings.Repeat("x contains 1\n", 300)},
			want: []string{"Berth does not check whether the modules compile: they have too many rules, or one is nested too deeply or has too long a " +
				"rule body; the remote engine checks them when Berth pushes them"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", remoteSpec(opaDocument, tc.modules...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, m.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			var got []string
			for _, module := range m.Remote.Modules {
				name, ok := strings.CutPrefix(module.ID, policy.ModulePrefix+"p/")
				if !ok {
					t.Errorf("module %s", module.ID)
				}
				got = append(got, name, module.Text)
			}
			if diff := cmp.Diff(tc.modules, got); diff != "" {
				t.Errorf("modules (-want +got):\n%s", diff)
			}
		})
	}
}

// TestModulesDigest checks that the digest depends on the names, the Rego, and the order of the modules, and on nothing
// else.
func TestModulesDigest(t *testing.T) {
	digest := func(spec placementv1.PlacementPolicySpec) string {
		m, err := policy.Compile("p", spec)
		if err != nil {
			t.Fatal(err)
		}
		return m.Remote.ModulesDigest
	}
	is := digest(remoteSpec(opaDocument, "a", "package a", "b", "package b"))
	if is == "" || is != digest(remoteSpec("https://elsewhere.example/v0/data", "a", "package a", "b", "package b")) {
		t.Error("equal modules have different digests")
	}
	for name, modules := range map[string][]string{
		"Order": {"b", "package b", "a", "package a"}, "Text": {"a", "package a ", "b", "package b"}, "Name": {"a", "package a", "c", "package b"},
		"Less": {"a", "package a"}, "Border": {"a", "package a\n#b", "b", "package b"},
	} {
		if digest(remoteSpec(opaDocument, modules...)) == is {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// FuzzRemoteURL checks that each URL is rejected or located. A located document and base must be on the host that the
// policy names and must have no credentials.
func FuzzRemoteURL(f *testing.F) {
	for _, seed := range []string{
		opaDocument, "http://opa.example/v0/data/p", "https://u:p@opa.example/", "https://opa.example/v1/data/p?q", "https://[::1]:1/a%2Fv1/data/v0/data", "https:opa", "//x", "https://a b/",
		"https://opa.example\\@evil.example/v1/data", "https://opa.example/%zz", "https://opa.example/v1/data/../..", "HTTPS://OPA.example:00443/v1/data",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		spec := remoteSpec(address)
		spec.Remote.Insecure = true
		m, err := policy.Compile("p", spec)
		if err != nil {
			if _, ok := errors.AsType[*policy.CompileError](err); !ok {
				t.Fatalf("error without diagnostics: %T %v", err, err)
			}
			return
		}
		again, err := url.Parse(m.Remote.Document.String())
		if err != nil || again.Host != m.Remote.Document.Host || again.EscapedPath() != m.Remote.Document.EscapedPath() || again.User != nil || again.RawQuery != "" {
			t.Fatalf("%q is asked as %q: %v", address, m.Remote.Document, err)
		}
		if base := m.Remote.Base; base != nil {
			version := "v1"
			if m.Remote.V0 {
				version = "v0"
			}
			if base.Host != again.Host || base.Scheme != again.Scheme || !strings.HasSuffix(base.EscapedPath(), "/") {
				t.Fatalf("%q is below %q", address, base)
			}
			if at := base.EscapedPath() + path.Join(version, "data"); !strings.HasPrefix(again.EscapedPath()+"/", at+"/") {
				t.Fatalf("%q is not below %q", address, at)
			}
		}
	})
}

// TestRemoteAsksForItsOwnPackage checks OwnPackage, which reports whether the document is a package of the policy's
// modules.
func TestRemoteAsksForItsOwnPackage(t *testing.T) {
	tests := map[string]struct {
		address, text string
		want          bool
	}{
		"Package": {"https://opa.example/v1/data/fleet/placement", `package fleet.placement

x := 1`, true},
		"OlderForm": {"https://opa.example/below/v0/data/fleet/placement/", `package fleet.placement

x := 1`, true},
		"Escaped": {"https://opa.example/v1/data/fleet/a%2Fb", `package fleet["a/b"]

x := 1`, true},
		"Rule": {"https://opa.example/v1/data/fleet/placement/decision", `package fleet.placement

decision := {}`, false},
		"PackagesAbove": {"https://opa.example/v1/data/fleet", `package fleet.placement

x := 1`, false},
		"Another": {"https://opa.example/v1/data/fleet/other", `package fleet.placement

x := 1`, false},
		"NoRules": {"https://opa.example/v1/data/fleet", "package fleet", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", remoteSpec(tc.address, "main", tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if m.Remote.OwnPackage != tc.want {
				t.Errorf("asks for its own package: %t", m.Remote.OwnPackage)
			}
		})
	}
}
