package webhookconfiguration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOwned(t *testing.T) {
	role := func(name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: name, UID: uid}
	}
	owner, other := role("berth", "1"), role("other", "2")
	tests := map[string]struct {
		have  []metav1.OwnerReference
		owner *metav1.OwnerReference
		want  []metav1.OwnerReference
	}{
		"None":       {},
		"New":        {owner: &owner, want: []metav1.OwnerReference{owner}},
		"Known":      {have: []metav1.OwnerReference{owner, other}, owner: &owner, want: []metav1.OwnerReference{owner, other}},
		"NotReadNow": {have: []metav1.OwnerReference{owner}, want: []metav1.OwnerReference{owner}},
		"Successor":  {have: []metav1.OwnerReference{role("berth", "0"), other}, owner: &owner, want: []metav1.OwnerReference{other, owner}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, owned(tc.have, tc.owner)); diff != "" {
				t.Errorf("owned() (-want +got):\n%s", diff)
			}
		})
	}
}
