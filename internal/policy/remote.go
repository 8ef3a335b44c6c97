package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
)

// Remote is a policy that another engine decides. It is immutable.
type Remote struct {
	// Spec is what the policy says of it, with defaults.
	Spec placementv1.Remote
	// Document is what is asked for.
	Document *url.URL
	// V0 says that it is asked in the older form of OPA's data API.
	V0 bool
	// Base is the address below which the engine has its APIs, v1/data and v1/policies; nil if the document does not tell.
	Base *url.URL
	// Modules are the texts that the engine is to have, in order, and ModulesDigest stands for all of them.
	Modules       []RemoteModule
	ModulesDigest string
}

// RemoteModule is a text that an engine is to have.
type RemoteModule struct {
	// ID is the name by which the engine knows it.
	ID   string
	Text string
}

// Supplied says that the engine has data or modules from Berth.
func (r *Remote) Supplied() bool { return len(r.Spec.Replicate)+len(r.Modules) > 0 }

// ModulePrefix is that of the IDs of all modules that Berth keeps in engines.
const ModulePrefix = "placement.berth.dev/"

const codeRemote = "berth_remote_error"

// compileRemote reads spec.remote. The error is a *CompileError.
func compileRemote(name string, spec placementv1.Remote) (*Module, error) {
	document, err := url.Parse(spec.URL)
	if err != nil {
		return nil, remoteError("url", err.Error())
	}
	switch {
	case document.Scheme != "https" && document.Scheme != "http" || document.Host == "":
		return nil, remoteError("url", "must be https://<host>[:<port>]/<path>")
	case document.Scheme == "http" && !spec.Insecure:
		return nil, remoteError("url", "plain http needs insecure: true")
	case document.User != nil || document.RawQuery != "" || document.Fragment != "":
		return nil, remoteError("url", "must have neither user and password nor query or fragment")
	}
	r := &Remote{Spec: spec, Document: document}
	r.Base, r.V0 = baseOf(document)
	if r.Base == nil && len(spec.Replicate)+len(spec.Modules) > 0 {
		return nil, remoteError("url", "must have a path below /v1/data or /v0/data, for data and modules to be kept there")
	}
	sum := sha256.New()
	for _, m := range spec.Modules {
		r.Modules = append(r.Modules, RemoteModule{ID: ModulePrefix + name + "/" + m.Name, Text: m.Rego})
		fmt.Fprintf(sum, "%q %q\n", m.Name, m.Rego)
	}
	if len(r.Modules) > 0 {
		r.ModulesDigest = hex.EncodeToString(sum.Sum(nil))
	}
	return &Module{Remote: r, Rules: ContractRules, Input: projection.Everything(), Data: projection.Union()}, nil
}

// baseOf returns what precedes v1/data or v0/data in a document's address, nil if that is not there, and whether it is v0.
func baseOf(document *url.URL) (base *url.URL, v0 bool) {
	path := document.EscapedPath() + "/"
	for _, version := range []string{"v1", "v0"} {
		if before, _, ok := strings.Cut(path, "/"+version+"/data/"); ok {
			return &url.URL{Scheme: document.Scheme, Host: document.Host, Path: before + "/"}, version == "v0"
		}
	}
	return nil, false
}

func remoteError(field, message string) *CompileError {
	return &CompileError{Diagnostics: []Diagnostic{{Field: "spec.remote." + field, Code: codeRemote, Message: message}}}
}
