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

package console

import (
	"cmp"
	"context"
	"embed"
	"io/fs"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

//go:embed assets
var assets embed.FS

// Assets returns the files of the web application.
func Assets() fs.FS {
	// The folder is embedded.
	out, _ := fs.Sub(assets, "assets")
	return out
}

// Reading is what Config.Read returns: a cluster to read from, the options to simulate decisions in it, its name for the user, and what is
// possible with it, such as checks of types.
type Reading struct {
	Cluster simulation.Cluster
	Options simulation.Options
	// Source names the cluster for the user: the context of the kubeconfig, the host of the API server, or the files.
	Source string
	// Live reports whether it is the cluster of an API server. Otherwise it is that of files, which have only some types.
	Live    bool
	Types   whatif.Types // checks the types in policies that the user changes; nil to check none
	Recount bool         // whether the cluster has all objects that quotas count, so that their usage can be computed
}

// Config has the functions of the plugin that the console calls, Read, Check, Manifest, and Approvals, and the log of decisions, if any.
type Config struct {
	// Read connects to the cluster, or reads its files. The console calls it again when the user wants to see the newest state.
	Read func(ctx context.Context) (*Reading, error)
	// Check returns the errors and warnings of `kubectl berth check` for a policy in a cluster.
	Check func(ctx context.Context, r *Reading, obj *unstructured.Unstructured) (errors, warnings []string)
	// Manifest returns the YAML of a policy without its status.
	Manifest func(p *placementv1.PlacementPolicy) (string, error)
	// Log is the log of decisions; nil if there is none.
	Log Log
	// Approvals returns the plan and the stage of a policy that wait for an approval, without Approval.Command.
	Approvals func(p *placementv1.PlacementPolicy) []Approval

	// computing limits how many computations run at once in all consoles that share it; nil for no limit.
	computing slots
}

// Approval is a plan, or the next stage of a rollout, of one policy, that waits for an approval: its ID, and the command that approves it.
// It does not name the policy other than in the command.
type Approval struct {
	// Plan reports whether it is a plan. Otherwise it is the next stage of a rollout.
	Plan bool   `json:"plan"`
	ID   string `json:"id"` // the digest of the plan, or status.rollout.approvalID of the stage
	// Command is the command for a shell that approves it.
	Command string `json:"command"`
}

// Console serves the pages and the endpoints to one user: it keeps the latest reading of the cluster, and the newest decisions of the log.
// It is safe for concurrent use.
type Console struct {
	config  Config
	updates *updates

	mu       sync.Mutex
	latest   *state        // the latest reading, which all views show; nil before the first one
	replaced chan struct{} // closed when the user reads the cluster again

	logged    log // the newest decisions of Config.Log
	collector *collector
	// refreshing makes a request to read the cluster again wait for one that is under way, and share its result.
	refreshing singleflight.Group
}

// New returns a console. It reads nothing before the first request or Refresh.
func New(config Config) *Console {
	return &Console{config: config, updates: newUpdates(), collector: newCollector()}
}

// Handler returns the handler of the pages and endpoints, which a Guard has to guard.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(Assets()))
	mux.Handle("/api/", c.api())
	return mux
}

// api returns the handler of the endpoints, below /api/.
func (c *Console) api() http.Handler {
	mux := http.NewServeMux()
	for _, e := range c.endpoints() {
		mux.Handle(e.Method+" /api/"+e.Name, c.collector.during(e.handler))
	}
	mux.HandleFunc("GET /api/updates", c.serveUpdates)
	return mux
}

// Refresh reads the cluster again, decides its objects, and tells all pages. An error means that the cluster can't be read: then the latest
// reading stays. That objects can't be decided is no error here: the views return it.
func (c *Console) Refresh(ctx context.Context) error {
	_, err, _ := c.refreshing.Do("", func() (any, error) {
		c.mu.Lock()
		s, err := c.read(ctx)
		c.mu.Unlock()
		if err != nil {
			return nil, err
		}
		// A view returns the error again.
		_, _ = s.fleet(ctx)
		c.updates.announce(s)
		return nil, nil
	})
	return err
}

// read reads the cluster and makes that reading the latest one. It tells no page, and ends followCluster for the reading before. The caller
// holds mu.
func (c *Console) read(ctx context.Context) (*state, error) {
	// The next request uses what a request reads that its client has given up.
	reading, err := c.config.Read(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	if c.replaced != nil {
		close(c.replaced)
	}
	c.latest, c.replaced = newState(reading, c.config.computing), make(chan struct{})
	return c.latest, nil
}

// current returns the latest reading, and reads the cluster if there is none; an error if that fails. The read goes on if the request ends.
func (c *Console) current(r *http.Request) (*state, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest != nil {
		return c.latest, nil
	}
	return c.read(r.Context())
}

// approvals returns the plan and the next stage of a policy, as far as they wait for an approval, each with the command that gives it; an
// empty slice for none.
func (c *Console) approvals(p *placementv1.PlacementPolicy) []Approval {
	out := append([]Approval{}, c.config.Approvals(p)...)
	for i := range out {
		out[i].Command = shell("kubectl", "berth", "approve", p.Name, "--id="+out[i].ID)
	}
	return out
}

// refreshed is the response of /api/refresh, and an update of /api/updates: the time of the newest reading.
type refreshed struct {
	ReadAt time.Time `json:"readAt"`
}

// refresh serves /api/refresh: it reads the cluster again, as Refresh does, and returns the time of the reading.
func (c *Console) refresh(r *http.Request, _ struct{}) (refreshed, error) {
	if err := c.Refresh(r.Context()); err != nil {
		return refreshed{}, err
	}
	s, err := c.current(r)
	if err != nil {
		return refreshed{}, err
	}
	return refreshed{s.at}, nil
}

// number returns a parameter of a request as a number, max in place of a greater one, or other if the parameter is missing. It is an error
// unless the parameter is an integer of at least 0.
func number(r *http.Request, name string, other, max int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return other, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, problem{http.StatusBadRequest, cmp.Or(name, "the parameter") + " is not an integer of at least 0: " + text}
	}
	return min(n, max), nil
}
