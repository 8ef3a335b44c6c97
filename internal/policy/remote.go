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

package policy

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/projection"
)

// Remote describes a policy that a remote engine decides. It is immutable.
type Remote struct {
	// Policy is the policy's name.
	Policy string
	// Spec is the policy's spec.remote with defaults.
	Spec placementv1.Remote
	// Document is the URL of the document in the engine that has the decisions, such as https://opa.example:8181/v1/data/fleet/placement. Its
	// path may have neither v1/data nor v0/data if Berth pushes nothing to the engine.
	Document *url.URL
	// V0 reports whether requests use version 0 of OPA's data API, because the URL has v0/data. The input is then the whole body of a
	// request.
	V0 bool
	// Base is the URL below which the engine serves v1/data and v1/policies; nil if the path of Document contains neither v1/data nor v0/data.
	Base *url.URL
	// Modules are the Rego modules to push to the engine, in order.
	Modules       []RemoteModule
	ModulesDigest string // identifies Modules; empty for none
	// NamesSecrets reports whether the policy matches or replicates the resource type secrets by its name. MatchesSecrets reports whether
	// the policy matches the type, by its name or by a wildcard.
	NamesSecrets, MatchesSecrets bool
	// OwnPackage reports whether the document is the package of one of Modules, and that has rules. An engine that has the modules then
	// always returns a result.
	OwnPackage bool
}

// RemoteModule is one of spec.remote.modules of a policy: a Rego module that Berth pushes to the policy's remote engine.
type RemoteModule struct {
	// ID is the name of the module in the engine: ModulePrefix, the policy's name, a slash, and the module's name.
	ID   string
	Text string // the Rego
}

// NeedsPush reports whether Berth pushes data or modules to the engine.
func (r *Remote) NeedsPush() bool { return len(r.Spec.Replicate)+len(r.Modules) > 0 }

// SecretUse is a field of spec.remote that names a Secret in the operator's own namespace: the field's path below spec.remote, the name of
// the Secret, and the keys that the Secret must have.
type SecretUse struct {
	// Field is the field's path below spec.remote, such as tokenSecretRef.
	Field string
	Name  string // of the Secret
	// Keys are the keys that the Secret must have, such as tls.crt and tls.key.
	Keys []string
}

// Secrets returns the fields of spec.remote that name a Secret, as far as they are set: of the token, the certificate authorities, and the
// client certificate, in this order.
func (r *Remote) Secrets() []SecretUse {
	var out []SecretUse
	if ref := r.Spec.TokenSecretRef; ref != nil {
		out = append(out, SecretUse{"tokenSecretRef", ref.Name, []string{ref.Key}})
	}
	if ref := r.Spec.CASecretRef; ref != nil {
		out = append(out, SecretUse{"caSecretRef", ref.Name, []string{ref.Key}})
	}
	if ref := r.Spec.ClientCertificateSecretRef; ref != nil {
		out = append(out, SecretUse{"clientCertificateSecretRef", ref.Name, []string{"tls.crt", "tls.key"}})
	}
	return out
}

// ReservedSecrets are the Secrets in the operator's own namespace that no policy may name. They hold credentials of
// Berth itself and the key that signs its records.
var ReservedSecrets = []string{"berth-webhook-cert", "berth-webhook-token", "berth-intent-key", "berth-served-kubeconfig"}

// ModulePrefix is the prefix of the IDs of all modules that Berth pushes to engines.
const ModulePrefix = "placement.berth.dev/"

// secretsOf sets NamesSecrets if match, the policy's spec.match, or spec.remote.replicate has the resource type secrets by its name. It
// sets MatchesSecrets if match has the type by its name or by a wildcard. Spec must be set.
func (r *Remote) secretsOf(match placementv1.Match) {
	for _, rule := range match.ResourceRules {
		if !slices.Contains(rule.APIGroups, "") && !slices.Contains(rule.APIGroups, "*") {
			continue
		}
		named := slices.Contains(rule.Resources, secretResource)
		r.NamesSecrets = r.NamesSecrets || named
		r.MatchesSecrets = r.MatchesSecrets || named || slices.Contains(rule.Resources, "*")
	}
	for _, replicated := range r.Spec.Replicate {
		r.NamesSecrets = r.NamesSecrets || replicated.APIGroup == "" && replicated.Resource == secretResource
	}
}

const secretResource = "secrets"

// CheckSecrets returns a *CompileError if the policy matches or replicates the resource type secrets by its name, so that its remote engine
// would receive Secrets. A match by a wildcard is no error. For policies without a remote engine, it returns nil.
func (m *Module) CheckSecrets() error {
	if m.Remote == nil || !m.Remote.NamesSecrets {
		return nil
	}
	return &CompileError{Diagnostics: []Diagnostic{remoteError("url", "the policy matches or replicates secrets, which the manager does not "+
		"send to a remote engine: remove secrets from spec.match and spec.remote.replicate, decide them in spec.rego, or have the manager run "+
		"with --allow-remote-secrets")}}
}

const codeRemote = "berth_remote_error"

// compileRemote compiles spec.remote of the policy with a name: it checks the URL, the certificates, and the modules, and sends nothing to
// the engine. The error is a *CompileError.
func compileRemote(name string, spec placementv1.Remote) (*Module, error) {
	r := &Remote{Policy: name, Spec: spec}
	var wrong []Diagnostic
	if problem := r.locate(); problem != "" {
		wrong = append(wrong, remoteError("url", problem))
	}
	if len(spec.CABundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(spec.CABundle) {
		wrong = append(wrong, remoteError("caBundle", "has no certificate in PEM"))
	}
	for _, use := range r.Secrets() {
		if slices.Contains(ReservedSecrets, use.Name) {
			wrong = append(wrong, remoteError(use.Field+".name", fmt.Sprintf("the Secret %s is Berth's own, and no engine gets it: name "+
				"another Secret", use.Name)))
		}
	}
	m := &Module{Remote: r, Rules: language.ContractRules, Dependencies: analysis.Dependencies{Input: projection.AllFields(),
		Data: projection.Union()}}
	parsed := map[string]*ast.Module{}
	sum := sha256.New()
	for i, text := range spec.Modules {
		r.Modules = append(r.Modules, RemoteModule{ID: ModulePrefix + name + "/" + text.Name, Text: text.Rego})
		fmt.Fprintf(sum, "%q %q\n", text.Name, text.Rego)
		module, err := parseRemote(text)
		if list, ok := errors.AsType[*CompileError](err); ok {
			for _, d := range list.Diagnostics {
				d.Field = moduleField(i)
				wrong = append(wrong, d)
			}
			continue
		}
		parsed[moduleFile(text)] = module
	}
	if len(wrong) == 0 && len(r.Modules) > 0 {
		r.ModulesDigest = hex.EncodeToString(sum.Sum(nil))
		for _, module := range parsed {
			r.OwnPackage = r.OwnPackage || len(module.Rules) > 0 && r.requestsPackage(module.Package.Path)
		}
		var mistakes []*ast.Error
		m.Warnings, mistakes = compileModules(parsed)
		for _, e := range mistakes {
			// An error without a location in one of the modules is attributed to the first module.
			at := max(0, slices.IndexFunc(spec.Modules, func(text placementv1.RemoteModule) bool {
				return e.Location != nil && moduleFile(text) == e.Location.File
			}))
			d := diagnostic(moduleFile(spec.Modules[at]), e.Location, e.Code, e.Message)
			d.Field = moduleField(at)
			wrong = append(wrong, d)
		}
	}
	if len(wrong) > 0 {
		return nil, &CompileError{Diagnostics: wrong}
	}
	return m, nil
}

// locate sets Document, Base, and V0 from spec.remote.url. It returns what is wrong with the URL, for users; "" for nothing. A URL without
// v1/data or v0/data is wrong only if Berth pushes data or modules to the engine; otherwise Base is nil.
func (r *Remote) locate() string {
	var err error
	if r.Document, err = url.Parse(r.Spec.URL); err != nil {
		return err.Error()
	}
	document := r.Document
	port, err := strconv.ParseUint(cmp.Or(document.Port(), "443"), 10, 16)
	switch {
	case document.Scheme != "https" && document.Scheme != "http" || document.Hostname() == "":
		return "must be https://<host>[:<port>]/<path>"
	case err != nil || port == 0:
		return document.Port() + " is not a port"
	case document.Scheme == "http" && !r.Spec.Insecure:
		return "plain http needs insecure: true"
	case document.User != nil || document.RawQuery != "" || document.ForceQuery || document.Fragment != "":
		return "must have neither user and password nor query or fragment"
	}
	document.Host = hostOf(document)
	r.Base, r.V0 = baseOf(document)
	if r.Base == nil && len(r.Spec.Replicate)+len(r.Spec.Modules) > 0 {
		return "must have a path below /v1/data or /v0/data, because Berth pushes data or modules to the engine"
	}
	return ""
}

// hostOf returns the host and port of an address, in lower case and without the default port of its scheme. Without that, two spellings of
// one engine would count as two engines. Each would have a writer that deletes the data and modules of the other.
func hostOf(document *url.URL) string {
	host, port := strings.ToLower(document.Host), document.Port()
	if port == "" || document.Scheme == "https" && port == "443" || document.Scheme == "http" && port == "80" {
		return strings.TrimSuffix(host, ":"+port)
	}
	return host
}

// baseOf returns the part of a document's URL before v1/data or v0/data, and whether the version is v0. It returns nil if the URL has
// neither. The first occurrence counts, because the rest belongs to the document's path.
func baseOf(document *url.URL) (base *url.URL, v0 bool) {
	path := document.EscapedPath() + "/"
	at := strings.Index(path, "/v1/data/")
	if old := strings.Index(path, "/v0/data/"); old >= 0 && (at < 0 || old < at) {
		at, v0 = old, true
	}
	if at < 0 {
		return nil, false
	}
	escaped := path[:at+1]
	// The path was part of a parsed URL, so that unescaping can't fail.
	plain, _ := url.PathUnescape(escaped)
	return &url.URL{Scheme: document.Scheme, Host: document.Host, Path: plain, RawPath: escaped}, v0
}

// requestsPackage reports whether the document that Berth requests is the given package, such as data.fleet.placement, and not a document
// above or below. Base must not be nil.
func (r *Remote) requestsPackage(pkg ast.Ref) bool {
	below := strings.TrimPrefix(r.Document.EscapedPath(), r.Base.EscapedPath())
	names := strings.Split(strings.Trim(below, "/"), "/")
	// The first two names are the version and "data". The first part of the package is "data", too.
	if len(names)-1 != len(pkg) {
		return false
	}
	for i, escaped := range names[2:] {
		// The path was part of a parsed URL, so that unescaping can't fail.
		name, _ := url.PathUnescape(escaped)
		if pkg[i+1].Value.Compare(ast.String(name)) != 0 {
			return false
		}
	}
	return true
}

// moduleField returns the path of the field with the Rego of the i-th module.
func moduleField(i int) string { return fmt.Sprintf("spec.remote.modules[%d].rego", i) }

// moduleFile returns the file name of a module in messages: its name with .rego.
func moduleFile(m placementv1.RemoteModule) string { return m.Name + ".rego" }

// parseRemote parses a module for a remote engine in Rego v1 or else v0, because the engine's version is unknown. If both fail, the error
// is that of the version that parses further. The error is a *CompileError.
func parseRemote(m placementv1.RemoteModule) (*ast.Module, error) {
	file := moduleFile(m)
	if n := len(m.Rego); n > maxRego {
		return nil, oneError(file, nil, codeSize, fmt.Sprintf("has %d bytes, at most %d are kept in an engine", n, maxRego))
	}
	parse := func(version ast.RegoVersion) (*ast.Module, *CompileError) {
		module, err := ast.ParseModuleWithOpts(file, m.Rego, ast.ParserOptions{RegoVersion: version})
		if err != nil {
			return nil, compileError(file, err)
		}
		if module == nil {
			return nil, oneError(file, nil, ast.ParseErr, "the Rego has no package declaration")
		}
		return module, nil
	}
	module, wrong := parse(ast.RegoV1)
	if wrong != nil {
		old, wrongOld := parse(ast.RegoV0)
		if wrongOld != nil {
			// Report the errors of the version that parses further, because it is probably the one that was meant.
			if further(wrongOld, wrong) {
				wrong = wrongOld
			}
			return nil, wrong
		}
		module = old
	}
	return module, checkPackage(file, module.Package)
}

// further reports whether the first error of a is at a later position than that of b.
func further(a, b *CompileError) bool {
	x, y := a.Diagnostics[0], b.Diagnostics[0]
	return cmp.Or(cmp.Compare(x.Row, y.Row), cmp.Compare(x.Col, y.Col)) > 0
}

// compileModules compiles the modules for a remote engine together, with all functions of this OPA version. An undefined function is only a
// warning, because the engine may have it. All other errors are in wrong: any engine would reject the module, after the policy has been
// stored. If the modules are too large to compile here, there is only a warning.
func compileModules(modules map[string]*ast.Module) (warnings []string, wrong []*ast.Error) {
	rules := 0
	for file, module := range modules {
		if rules += len(module.Rules); checkBounds(file, module, maxRules) != nil || rules > maxRules {
			return []string{"Berth does not check whether the modules compile: they have too many rules, or one is nested too deeply or has " +
				"too long a rule body; the remote engine checks them when Berth pushes them"}, nil
		}
	}
	capabilities := ast.CapabilitiesForThisVersion()
	capabilities.AllowNet = []string{}
	compiler := newCompiler(capabilities, nil)
	compiler.Compile(modules)
	for _, e := range compiler.Errors {
		if e.Code == ast.TypeErr && strings.HasPrefix(e.Message, "undefined function ") {
			warnings = append(warnings, "the modules do not compile unless the remote engine has what they lack: "+e.Error())
		} else {
			wrong = append(wrong, e)
		}
	}
	slices.Sort(warnings)
	return warnings, wrong
}

// remoteError returns the diagnostic for an error in a field, whose path below spec.remote is given. It has Berth's code for errors in
// spec.remote, and no position.
func remoteError(field, message string) Diagnostic {
	return Diagnostic{Field: "spec.remote." + field, Code: codeRemote, Message: message}
}
