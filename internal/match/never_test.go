package match_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/internal/match"
)

func TestExemptNamespaces(t *testing.T) {
	for _, tt := range []struct {
		namespace, own string
		want           bool
	}{
		{"kube-system", "berth-system", true},
		{"kube-system", "", true},
		{"berth-system", "berth-system", true},
		// The served cluster has none of its own.
		{"berth-system", "", false},
		{"shop", "berth-system", false},
		// Objects of no namespace.
		{"", "berth-system", false},
		{"", "", false},
	} {
		if got := match.Exempt(tt.namespace, tt.own); got != tt.want {
			t.Errorf("Exempt(%q, %q) = %v", tt.namespace, tt.own, got)
		}
		if tt.namespace == "" {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{match.Elsewhere(tt.own)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := selector.Matches(labels.Set{"kubernetes.io/metadata.name": tt.namespace}); got == tt.want {
			t.Errorf("Elsewhere(%q) selects %q: %v", tt.own, tt.namespace, got)
		}
	}
}
