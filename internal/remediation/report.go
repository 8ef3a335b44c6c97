package remediation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// Key names one object.
type Key struct {
	Resource  schema.GroupVersionResource
	Namespace string
	Name      string
}

// String is resource, namespace and name, as in "deployments.apps default/web".
func (k Key) String() string {
	return k.Resource.GroupResource().String() + " " + strings.TrimPrefix(k.Namespace+"/"+k.Name, "/")
}

func compareKeys(a, b Key) int {
	if a.Resource != b.Resource {
		if c := cmp.Compare(a.Resource.GroupResource().String(), b.Resource.GroupResource().String()); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Report is one policy's account.
type Report struct {
	Matched    int
	Violations int
	// Sample names some of the violations, sorted.
	Sample []placementv1.Violation
	// Failed is the number of objects that could not be decided, and FailedMessage the first one's error.
	Failed        int
	FailedMessage string
	// Conflicts names the policies that set a key of the same object to another value, sorted.
	Conflicts []string
	// Unsettled names objects whose patching stopped, sorted.
	Unsettled []string
	// Remediated is the number of patches since this account began.
	Remediated int64
}

// Ledger keeps the accounts of all policies. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
	byKey    map[Key][]string
}

// account is one policy's, by object.
type account struct {
	objects    map[Key]finding
	remediated int64
}

// finding is what one policy says of one object.
type finding struct {
	violation string
	failure   string
	conflicts []string
	unsettled bool
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{accounts: map[string]*account{}, byKey: map[Key][]string{}}
}

// Record replaces what is known of an object by the verdicts. It returns the policies whose account changed.
func (l *Ledger) Record(key Key, verdicts []*placement.Verdict, unsettled bool) []string {
	findings := map[string]finding{}
	for _, v := range verdicts {
		if v.Policy.Remediation == placementv1.RemediationOff {
			continue
		}
		f := judge(v)
		f.unsettled = unsettled && len(v.Changes) > 0
		findings[v.Policy.Name] = f
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var changed []string
	for _, name := range l.byKey[key] {
		if _, still := findings[name]; !still {
			delete(l.accounts[name].objects, key)
			changed = append(changed, name)
		}
	}
	for name, f := range findings {
		a := l.account(name)
		if old, known := a.objects[key]; !known || !equal(old, f) {
			a.objects[key] = f
			changed = append(changed, name)
		}
	}
	if len(findings) == 0 {
		delete(l.byKey, key)
	} else {
		l.byKey[key] = slices.Collect(maps.Keys(findings))
	}
	return changed
}

// Forget removes an object from all accounts and returns the policies whose account changed.
func (l *Ledger) Forget(key Key) []string { return l.Record(key, nil, false) }

// Remediated counts one patch.
func (l *Ledger) Remediated(policy string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(policy).remediated++
}

// ForgetPolicy removes a policy's account.
func (l *Ledger) ForgetPolicy(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.accounts[name]
	if !ok {
		return
	}
	for key := range a.objects {
		l.byKey[key] = slices.DeleteFunc(l.byKey[key], func(n string) bool { return n == name })
		if len(l.byKey[key]) == 0 {
			delete(l.byKey, key)
		}
	}
	delete(l.accounts, name)
}

func (l *Ledger) account(name string) *account {
	a, ok := l.accounts[name]
	if !ok {
		a = &account{objects: map[Key]finding{}}
		l.accounts[name] = a
	}
	return a
}

// Limits of what a policy's status shows.
const (
	maxSample  = 10
	maxMessage = 256
)

// Report returns a policy's account.
func (l *Ledger) Report(policy string) Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.accounts[policy]
	if !ok {
		return Report{}
	}
	out := Report{Matched: len(a.objects), Remediated: a.remediated}
	conflicts := map[string]bool{}
	// The account may have many more objects than are named: it is not sorted for these few.
	var failed, sample, unsettled []Key
	for key, f := range a.objects {
		if f.failure != "" {
			out.Failed++
			failed = keepFirst(failed, key, 1)
		}
		if f.violation != "" {
			out.Violations++
			sample = keepFirst(sample, key, maxSample)
		}
		if f.unsettled {
			unsettled = append(unsettled, key)
		}
		for _, name := range f.conflicts {
			conflicts[name] = true
		}
	}
	for _, key := range failed {
		out.FailedMessage = key.String() + ": " + a.objects[key].failure
	}
	for _, key := range sample {
		out.Sample = append(out.Sample, placementv1.Violation{
			Resource: key.Resource.GroupResource().String(), Namespace: key.Namespace, Name: key.Name,
			Message: truncate(a.objects[key].violation),
		})
	}
	slices.SortFunc(unsettled, compareKeys)
	for _, key := range unsettled {
		out.Unsettled = append(out.Unsettled, key.String())
	}
	out.Conflicts = slices.Sorted(maps.Keys(conflicts))
	return out
}

// keepFirst adds a key to those that sort first, at most limit of them, in order.
func keepFirst(keys []Key, key Key, limit int) []Key {
	i, _ := slices.BinarySearchFunc(keys, key, compareKeys)
	if i == limit {
		return keys
	}
	keys = slices.Insert(keys, i, key)
	return keys[:min(len(keys), limit)]
}

// judge says in words what a verdict finds.
func judge(v *placement.Verdict) finding {
	var f finding
	if v.Err != nil {
		f.failure = truncate(v.Err.Error())
		return f
	}
	parts := slices.Clone(v.Decision.Errors)
	if len(parts) == 0 {
		// What is denied is not changed.
		for _, c := range v.Changes {
			parts = append(parts, Describe(c))
		}
	}
	f.violation = strings.Join(parts, "; ")
	for _, c := range v.Conflicts {
		f.conflicts = append(f.conflicts, c.With)
	}
	slices.Sort(f.conflicts)
	f.conflicts = slices.Compact(f.conflicts)
	return f
}

// Describe says in words what a change replaces.
func Describe(c placement.Change) string {
	var out string
	switch {
	case c.To == nil:
		out = fmt.Sprintf("%s is %s, should be absent", c.Subject(), *c.From)
	case c.From == nil:
		out = fmt.Sprintf("%s is absent, should be %s", c.Subject(), *c.To)
	default:
		out = fmt.Sprintf("%s is %s, should be %s", c.Subject(), *c.From, *c.To)
	}
	if c.Immutable != "" {
		out += " (" + c.Immutable + ")"
	}
	return out
}

func equal(a, b finding) bool {
	return a.violation == b.violation && a.failure == b.failure && a.unsettled == b.unsettled && slices.Equal(a.conflicts, b.conflicts)
}

func truncate(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage-3], "") + "..."
}
