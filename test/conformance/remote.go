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

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/util/wait"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/engine/push"
	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
)

// pollInterval is the interval between checks whether an engine has all data.
const pollInterval = 20 * time.Millisecond

// Remote is an engine that is asked as Berth does, and that Berth keeps supplied. It holds one theme at a time.
type Remote struct {
	base, token string
	engine      *remote.Engine
	pusher      *push.Pusher
	released    chan string
}

// NewRemote returns the engine that has its API at an address, as in http://127.0.0.1:8181, and wants a bearer token
// unless that is empty.
func NewRemote(base, token string) *Remote {
	r := &Remote{base: strings.TrimSuffix(base, "/"), token: token, released: make(chan string, 1)}
	clients := opaclient.NewPool(opaclient.Options{Secrets: r, UserAgent: "berth-conformance"})
	r.engine = remote.New(remote.Options{Clients: clients, AllowSecrets: true})
	ignore := func(...string) {}
	r.pusher = push.New(push.Options{
		Clients: clients, Inventories: replication.Known(), Observer: observer(r.released), ContentChanged: ignore, StateChanged: ignore,
	})
	return r
}

// Secret implements opaclient.Secrets.
func (r *Remote) Secret(context.Context, string) (map[string][]byte, error) {
	return map[string][]byte{"token": []byte(r.token)}, nil
}

// observer hears that an engine is left alone.
type observer chan string

// Pushed implements push.Observer.
func (observer) Pushed(string, engine.Fault) {}

// Loading implements push.Observer.
func (observer) Loading(string) {}

// Pending implements push.Observer.
func (observer) Pending(string, int) {}

// Released implements push.Observer.
func (o observer) Released(endpoint string) { o <- endpoint }

// Load brings the policies of a theme and their world to the engine, and returns an evaluator for each, in their order,
// once it has all. ctx bounds what Berth does there in the background, up to Unload.
func (r *Remote) Load(ctx context.Context, w *World, names []string, policies []Policy) ([]placement.Evaluator, error) {
	var wanted []push.PolicyNeeds
	bindings := make([]*policy.Binding, len(policies))
	out := make([]placement.Evaluator, len(policies))
	for i, p := range policies {
		if err := r.eachDocument(ctx, p, http.MethodPut); err != nil {
			return nil, err
		}
		m, err := r.module(ctx, w, names[i], p)
		if err != nil {
			return nil, err
		}
		b, err := policy.Bind(names[i], m, nil, w)
		if err != nil {
			return nil, err
		}
		if out[i], err = r.engine.Prepare(ctx, names[i], m, b); err != nil {
			return nil, err
		}
		bindings[i] = b
		wanted = append(wanted, push.PolicyNeeds{Policy: names[i], Remote: m.Remote, Types: b.PushedTypes})
	}
	for _, t := range w.types {
		r.pusher.Replace(t.GroupVersionResource, nil, w.Prepared(t.GroupVersionResource))
	}
	r.pusher.Set(ctx, wanted)
	for i, b := range bindings {
		if err := r.settle(ctx, names[i], b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Unload takes all that Load brought from the engine, and waits until that is done.
func (r *Remote) Unload(ctx context.Context, policies []Policy) error {
	r.pusher.Set(ctx, nil)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-r.released:
	case <-ctx.Done():
		return fmt.Errorf("taking data and modules from the engine: %w", ctx.Err())
	}
	var errs []error
	for _, p := range policies {
		errs = append(errs, r.eachDocument(ctx, p, http.MethodDelete))
	}
	return errors.Join(errs...)
}

// Close waits for what Load began, after its context.
func (r *Remote) Close() { r.pusher.Wait() }

// module is the policy as one that the engine decides. The engine gets all data that the same module would read here.
func (r *Remote) module(ctx context.Context, w *World, name string, p Policy) (*policy.Module, error) {
	_, m, b, err := w.Embedded(ctx, name, p)
	if err != nil {
		return nil, err
	}
	spec := &placementv1.Remote{
		URL: r.base + "/v1/data" + documentPath(m.Package), Insecure: strings.HasPrefix(r.base, "http://"),
		TimeoutSeconds: int32(patience / time.Second),
		Modules:        []placementv1.RemoteModule{{Name: "policy", Rego: p.Rego}},
	}
	if r.token != "" {
		spec.TokenSecretRef = &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: "token"}}
	}
	for _, read := range b.Resources {
		spec.Replicate = append(spec.Replicate, placementv1.ReplicatedResource{APIGroup: read.Group, Resource: read.Resource})
	}
	return policy.Compile(name, placementv1.PlacementPolicySpec{Remote: spec})
}

// documentPath is a package as the path of its document.
func documentPath(pkg ast.Ref) string {
	var out strings.Builder
	for _, term := range pkg[1:] {
		name, _ := term.Value.(ast.String)
		out.WriteString("/" + url.PathEscape(string(name)))
	}
	return out.String()
}

// settle waits until the engine has what a policy wants there.
func (r *Remote) settle(ctx context.Context, name string, b *policy.Binding) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, patience, true, func(context.Context) (bool, error) {
		return r.engine.DataReady(b), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the engine has what %s wants: %w", name, errors.Join(err, r.pusher.Failure(name)))
	}
	return nil
}

// eachDocument puts a policy's own documents to the engine, or deletes them.
func (r *Remote) eachDocument(ctx context.Context, p Policy, method string) error {
	var documents map[string]json.RawMessage
	if len(p.Data) == 0 {
		return nil
	}
	if err := json.Unmarshal(p.Data, &documents); err != nil {
		return err
	}
	for name, document := range documents {
		request, err := http.NewRequestWithContext(ctx, method, r.base+"/v1/data/"+url.PathEscape(name), bytes.NewReader(document))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		if r.token != "" {
			request.Header.Set("Authorization", "Bearer "+r.token)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		said, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		response.Body.Close()
		if err == nil && response.StatusCode/100 != 2 {
			err = fmt.Errorf("%s %s: %s: %s", method, request.URL, response.Status, said)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
