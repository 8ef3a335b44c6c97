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
	first, second := role("berth.v1-a", "3"), role("berth.v1-b", "4")
	tests := map[string]struct {
		have   []metav1.OwnerReference
		owners []metav1.OwnerReference
		want   []metav1.OwnerReference
	}{
		"None":        {},
		"New":         {owners: []metav1.OwnerReference{owner}, want: []metav1.OwnerReference{owner}},
		"Known":       {have: []metav1.OwnerReference{owner, other}, owners: []metav1.OwnerReference{owner}, want: []metav1.OwnerReference{owner, other}},
		"NotReadNow":  {have: []metav1.OwnerReference{owner}, want: []metav1.OwnerReference{owner}},
		"Successor":   {have: []metav1.OwnerReference{role("berth", "0"), other}, owners: []metav1.OwnerReference{owner}, want: []metav1.OwnerReference{other, owner}},
		"Several":     {have: []metav1.OwnerReference{second}, owners: []metav1.OwnerReference{first, second}, want: []metav1.OwnerReference{second, first}},
		"NextVersion": {have: []metav1.OwnerReference{first}, owners: []metav1.OwnerReference{second}, want: []metav1.OwnerReference{first, second}},
		"NamedOneIsNotSelected": {
			have: []metav1.OwnerReference{owner}, owners: []metav1.OwnerReference{first}, want: []metav1.OwnerReference{first},
		},
		"OfTheNameButNoRole": {
			have:   []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "berth", UID: "9"}},
			owners: []metav1.OwnerReference{first},
			want:   []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "berth", UID: "9"}, first},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Owners{Name: "berth"}.owned(tc.have, tc.owners)); diff != "" {
				t.Errorf("owned() (-want +got):\n%s", diff)
			}
		})
	}
}
