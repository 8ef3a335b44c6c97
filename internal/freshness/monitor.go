// Package freshness finds out whether this replica knows the policies that the API server has. A watch that stands
// still looks like one on which nothing happens, so every replica asks the API server actively.
package freshness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// DefaultBound is the default of Options.Bound.
const DefaultBound = 20 * time.Second

// catchUpInterval is how often a round compares again while this replica is behind.
const catchUpInterval = 20 * time.Millisecond

// maxCatchUp is how long a round waits for this replica to load what it found.
const maxCatchUp = time.Second

var (
	_ manager.Runnable               = (*Monitor)(nil)
	_ manager.LeaderElectionRunnable = (*Monitor)(nil)
)

// Options configure a Monitor.
type Options struct {
	// Live reads from the API server, over the connection that the watches use.
	Live client.Reader
	// Registry has the policies that this replica has loaded.
	Registry *placement.Registry
	// Bound is how old the last confirmation may be while this replica counts as current. The API server has a third of
	// it to answer; it is asked every quarter of it.
	Bound time.Duration
	// Rewound is called when the API server's store turns out to have gone back to an earlier state. It must be quick.
	Rewound func()
}

// Monitor confirms that this replica has the API server's policies. It is safe for concurrent use.
type Monitor struct {
	options Options
	// confirmed is when the last successful round began; nil before there is one.
	confirmed atomic.Pointer[time.Time]

	mu sync.Mutex
	// next is the round that begins after the one that runs; nil if nobody waits for one.
	next *round
	busy bool

	// version is the resource version of the last list. Only the round that runs uses it.
	version string
}

// round is one comparison with the API server.
type round struct {
	done chan struct{}
	err  error
}

// New returns a monitor. Add it to a manager.
func New(o Options) *Monitor { return &Monitor{options: o} }

// NeedLeaderElection returns false: every replica answers admission requests.
func (*Monitor) NeedLeaderElection() bool { return false }

// Start confirms at intervals until ctx ends.
func (m *Monitor) Start(ctx context.Context) error {
	log := ctrllog.FromContext(ctx).WithName("freshness")
	failing := false
	for ctx.Err() == nil {
		begin := time.Now()
		err := m.Confirm(ctx)
		interval := m.options.Bound / 4
		if err != nil {
			interval = min(interval, time.Second)
		}
		if failing != (err != nil) && ctx.Err() == nil {
			failing = err != nil
			if failing {
				log.Info("The policies of this replica could not be confirmed", "error", err.Error(), "bound", m.options.Bound)
			} else {
				log.Info("The policies of this replica are confirmed again")
			}
		}
		// Replicas that started together ask at different times.
		pause := time.NewTimer(time.Duration((0.8 + 0.2*rand.Float64()) * float64(interval-time.Since(begin))))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
	return nil
}

// Current reports whether this replica had the API server's policies within the bound.
func (m *Monitor) Current() bool {
	at := m.confirmed.Load()
	return at != nil && time.Since(*at) <= m.options.Bound
}

// Confirmed returns when this replica last had the API server's policies for certain; zero for never.
func (m *Monitor) Confirmed() time.Time {
	if at := m.confirmed.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Confirm asks the API server, after the call began, whether this replica has its policies. Concurrent calls share a
// request. An error means that the replica is behind, or that the API server did not answer.
func (m *Monitor) Confirm(ctx context.Context) error {
	m.mu.Lock()
	r := m.next
	if r == nil {
		r = &round{done: make(chan struct{})}
		m.next = r
		if !m.busy {
			m.busy = true
			go m.serve(context.WithoutCancel(ctx))
		}
	}
	m.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("the API server did not confirm the policies of this replica in time: %w", ctx.Err())
	}
}

// serve runs rounds until nobody waits for one.
func (m *Monitor) serve(ctx context.Context) {
	for {
		m.mu.Lock()
		r := m.next
		m.next = nil
		m.busy = r != nil
		m.mu.Unlock()
		if r == nil {
			return
		}
		r.err = m.compare(ctx)
		close(r.done)
	}
}

// compare is one round: it lists the live policies and waits a little until this replica has loaded them.
func (m *Monitor) compare(ctx context.Context) error {
	begin := time.Now()
	before := m.loaded()
	live, err := m.list(ctx)
	if err != nil {
		return fmt.Errorf("asking the API server for its policies: %w", err)
	}
	var lacking error
	err = wait.PollUntilContextTimeout(ctx, catchUpInterval, min(maxCatchUp, m.options.Bound/3), true, func(context.Context) (bool, error) {
		lacking = behind(live, before, m.loaded())
		return lacking == nil, nil
	})
	if err != nil {
		return lacking
	}
	m.confirmed.Store(&begin)
	return nil
}

// list returns the policies that the API server has: their names, UIDs and generations.
func (m *Monitor) list(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.Bound/3)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(placementv1.GroupVersion.WithKind("PlacementPolicyList"))
	if err := m.options.Live.List(ctx, list); err != nil {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			// The type is not installed, so there are none.
			return nil, nil
		}
		return nil, err
	}
	// The requests follow one after the other, and each is answered by the newest state.
	if order, err := resourceversion.CompareResourceVersion(list.ResourceVersion, m.version); err == nil && order < 0 && m.options.Rewound != nil {
		ctrllog.FromContext(ctx).Info("The API server's store has gone back to an earlier state; listing every type again", "from", m.version, "to", list.ResourceVersion)
		m.options.Rewound()
	}
	m.version = list.ResourceVersion
	return list.Items, nil
}

// loaded returns what this replica has loaded.
func (m *Monitor) loaded() map[string]placement.Loaded {
	out := map[string]placement.Loaded{}
	for name, standing := range m.options.Registry.All() {
		out[name] = standing.Loaded
	}
	return out
}

// behind returns an error that says what is to be loaded yet; nil if nothing is. Before is what was loaded when the list
// of live policies began, and now what is: what was loaded since then may be newer than the list.
func behind(live []metav1.PartialObjectMetadata, before, now map[string]placement.Loaded) error {
	there := make(map[string]bool, len(live))
	for _, p := range live {
		there[p.Name] = true
		was, has := before[p.Name], now[p.Name]
		switch {
		case has.UID != p.UID && has == was, has.UID == p.UID && has.Generation < p.Generation:
			return fmt.Errorf("this replica has not loaded generation %d of PlacementPolicy %s yet", p.Generation, p.Name)
		case has.UID == p.UID && has == was && has.Generation > p.Generation:
			return fmt.Errorf("this replica has a version of PlacementPolicy %s that the API server does not have", p.Name)
		}
	}
	for name, was := range before {
		if !there[name] && now[name] == was {
			return fmt.Errorf("this replica still has PlacementPolicy %s, which is deleted", name)
		}
	}
	return nil
}
