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
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/simulation"
)

// quotasView is the response of /api/quotas.
type quotasView struct {
	Quotas []quotaView `json:"quotas"`
	Notes  []string    `json:"notes"`
}

// quotaView is a ScopedQuota or a ClusterScopedQuota.
type quotaView struct {
	Kind      string           `json:"kind"`
	Namespace string           `json:"namespace,omitempty"`
	Name      string           `json:"name"`
	Mode      placementv1.Mode `json:"mode"`
	// Scopes are the filters that an object has to match to be counted, as text, such as "PriorityClass In [high]"; none if the quota
	// counts all objects.
	Scopes []string `json:"scopes"`
	// Ready is the message of the condition Ready if it is not true, or says that Berth has not counted the usage yet if there is no such
	// condition; empty if the quota is ready.
	Ready   string        `json:"ready,omitempty"`
	Amounts []quotaAmount `json:"amounts"`
	// Selected is the number of namespaces that share a ClusterScopedQuota, by its status; nil for a ScopedQuota, and before Berth has
	// counted.
	Selected *int32 `json:"selectedNamespaces,omitempty"`
	// Shares has what each namespace uses of a ClusterScopedQuota, as far as its status lists them.
	Shares []namespaceUse `json:"namespaces"`
}

// quotaAmount is the limit of a quota for a resource, the usage, and the reserved part of that, as texts of quantities, such as "4Gi", and
// usage and reserved part as fractions of the limit.
type quotaAmount struct {
	Resource string `json:"resource"`
	Hard     string `json:"hard"`     // the limit
	Used     string `json:"used"`     // the usage, which includes Reserved
	Reserved string `json:"reserved"` // charged for objects that Berth has admitted and not seen yet
	// UsedShare is Used as a fraction of Hard. If Hard is 0, it is 1, or 0 if Used is 0, too.
	UsedShare float64 `json:"usedShare"`
	// ReservedShare is Reserved as a fraction of Hard. If Hard is 0, it is 1, or 0 if Reserved is 0, too.
	ReservedShare float64 `json:"reservedShare"`
}

// namespaceUse is what a namespace uses of a quota that several namespaces share.
type namespaceUse struct {
	Namespace string            `json:"namespace"`
	Used      map[string]string `json:"used"` // the used amounts, by resource
}

func (c *Console) quotas(r *http.Request) (*quotasView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	out := &quotasView{Quotas: []quotaView{}, Notes: []string{}}
	if !s.Live {
		out.Notes = append(out.Notes, "Only the quotas in "+s.Source+" are known. A snapshot has only those that policies read or match: "+
			"to see all, open the console on the cluster.")
	}
	for plural, newQuota := range map[string]func() placementv1.Quota{
		"scopedquotas":        func() placementv1.Quota { return &placementv1.ScopedQuota{} },
		"clusterscopedquotas": func() placementv1.Quota { return &placementv1.ClusterScopedQuota{} },
	} {
		objects, err := s.cached.List(r.Context(), placementv1.GroupVersion.WithResource(plural), nil)
		switch {
		case apierrors.IsForbidden(err):
			out.Notes = append(out.Notes, fmt.Sprintf("You may not list %s, so they are missing: ask for the right to list them.", plural))
			continue
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			continue
		case err != nil:
			return nil, err
		}
		for _, obj := range objects {
			view, err := quotaOf(obj, newQuota())
			if err != nil {
				return nil, err
			}
			out.Quotas = append(out.Quotas, *view)
		}
	}
	slices.Sort(out.Notes)
	slices.SortFunc(out.Quotas, func(a, b quotaView) int {
		return slices.Compare([]string{a.Kind, a.Namespace, a.Name}, []string{b.Kind, b.Namespace, b.Name})
	})
	return out, nil
}

// quotaOf returns the view of a quota. It decodes the quota into to, an empty one of its kind.
func quotaOf(obj *unstructured.Unstructured, to placementv1.Quota) (*quotaView, error) {
	if err := numeral.FromUnstructured(obj.Object, to); err != nil {
		return nil, fmt.Errorf("%s: %w", simulation.Describe(obj), err)
	}
	spec, status := to.QuotaSpec(), to.QuotaStatus()
	out := &quotaView{
		Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), Mode: spec.Mode,
		Scopes: []string{}, Amounts: []quotaAmount{}, Shares: []namespaceUse{},
	}
	if out.Mode == "" {
		out.Mode = placementv1.ModeEnforce
	}
	for _, scope := range spec.Scopes {
		out.Scopes = append(out.Scopes, string(scope))
	}
	if spec.ScopeSelector != nil {
		for _, e := range spec.ScopeSelector.MatchExpressions {
			out.Scopes = append(out.Scopes, fmt.Sprint(e.ScopeName, " ", e.Operator, " ", e.Values))
		}
	}
	if ready := meta.FindStatusCondition(status.Conditions, placementv1.ConditionReady); ready == nil {
		out.Ready = "Berth has not counted the usage of the quota yet"
	} else if ready.Status != metav1.ConditionTrue {
		out.Ready = ready.Message
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
		out.Amounts = append(out.Amounts, amountIn(name, spec.Hard[name], status))
	}
	if shared, ok := to.(*placementv1.ClusterScopedQuota); ok {
		out.Selected = shared.Status.SelectedNamespaces
		for _, n := range shared.Status.Namespaces {
			use := namespaceUse{n.Namespace, map[string]string{}}
			for name, q := range n.Used {
				use.Used[string(name)] = q.String()
			}
			out.Shares = append(out.Shares, use)
		}
	}
	return out, nil
}

// amountIn returns the limit (hard), the usage, and the reservations of a resource of a quota, the latter two from the quota's status,
// which is not nil. What the status lacks is 0.
func amountIn(name corev1.ResourceName, hard resource.Quantity, status *placementv1.QuotaStatus) quotaAmount {
	used, reserved := status.Used[name], resource.Quantity{}
	for _, r := range status.Reservations {
		reserved.Add(r.Delta[name])
	}
	return quotaAmount{
		Resource: string(name), Hard: hard.String(), Used: used.String(), Reserved: reserved.String(),
		UsedShare: share(used, hard), ReservedShare: share(reserved, hard),
	}
}

// share returns a part as a fraction of the whole. If the whole is 0, the fraction is 1, or 0 if the part is 0, too.
func share(part, whole resource.Quantity) float64 {
	switch {
	case part.Sign() == 0:
		return 0
	case whole.Sign() == 0:
		return 1
	}
	return part.AsApproximateFloat64() / whole.AsApproximateFloat64()
}
