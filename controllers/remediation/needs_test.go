package remediation

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestNeedsKeepNoPolicy checks that the last deleted policy is not referenced any more. It would keep its evaluator and
// its connections.
func TestNeedsKeepNoPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		l.put("p", "a", manual, newDistant("https://e", time.Millisecond))
		l.start()
		pass(t, time.Second)
		if n := len(l.needs.policies); n != 1 {
			t.Fatalf("%d policies are known", n)
		}
		l.Registry.Remove("p")
		pass(t, time.Second)
		if n := len(l.needs.policies); n != 0 {
			t.Errorf("%d policies are kept", n)
		}
	})
}
