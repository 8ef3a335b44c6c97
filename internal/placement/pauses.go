package placement

import "sync"

// Pauses is the set of policies whose remediation is paused. The zero value is empty. It is safe for concurrent use.
type Pauses struct{ names sync.Map }

// Set records whether remediation of a policy is paused.
func (p *Pauses) Set(policy string, paused bool) {
	if !paused {
		p.names.Delete(policy)
		return
	}
	p.names.Store(policy, true)
}

// Paused reports whether remediation of a policy is paused.
func (p *Pauses) Paused(policy string) bool {
	_, paused := p.names.Load(policy)
	return paused
}
