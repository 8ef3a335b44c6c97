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

package match

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PartRollout is the Part of a Mismatch that comes from the function of Within.
const PartRollout = "rollout"

// Mismatch is the first part of a match that excludes an object.
type Mismatch struct {
	// Part is the path, below spec.match, of the part that excludes the object, for example "objectSelector" or
	// "matchConditions[1]". It is PartRollout, which is no such path, if the function of Within excludes the object.
	Part string
	// Reason says why the part excludes the object.
	Reason string
}

// Mismatch returns the first part of the match that excludes the object, in the order in which Matches checks them. It is nil if Matches
// returns true, even with an error, which Mismatch does not report. In addition, it excludes objects in Berth's own namespace,
// ownNamespace.
func (m *Matcher) Mismatch(ctx context.Context, o Object, ownNamespace string) *Mismatch {
	switch {
	case NeverMatched(o.Resource.GroupResource()):
		return &Mismatch{"resourceRules", fmt.Sprintf("policies never match %s", o.Resource.GroupResource())}
	case !m.SelectsResource(o.Resource):
		return &Mismatch{"resourceRules", fmt.Sprintf("no rule selects %s in version %s", o.Resource.GroupResource(), o.Resource.Version)}
	case o.Namespace != "" && IsProtectedNamespace(o.Namespace, ownNamespace):
		return &Mismatch{"namespaceSelector", fmt.Sprintf("policies never match objects in the namespace %s, which is protected", o.Namespace)}
	case m.SelectsByLabels(o.Namespace, o.NamespaceLabels) && !m.SelectsNamespace(o.Namespace, o.NamespaceLabels):
		return &Mismatch{PartRollout, "this version of the policy is not in force in the namespace"}
	case !m.SelectsNamespace(o.Namespace, o.NamespaceLabels):
		return &Mismatch{"namespaceSelector", unmet(m.namespaces, o.NamespaceLabels, "the namespace "+o.Namespace)}
	case m.needsGuard && sentByAPIServer(o.Request):
		return &Mismatch{"resourceRules", "the API server itself sent the request"}
	case !m.objects.Empty() && !m.SelectsLabels(o.Content.GetLabels()):
		return &Mismatch{"objectSelector", unmet(m.objects, o.Content.GetLabels(), "the object")}
	case m.conditions == nil:
		return nil
	}
	for i, condition := range m.match.MatchConditions {
		// Conditions that compiled together compile alone.
		alone, errs := sharedConditions(m.match.MatchConditions[i:i+1], nil)
		if len(errs) > 0 {
			continue
		}
		one := &Matcher{conditions: alone}
		if matches, err := one.evaluateConditions(ctx, o); err == nil && !matches {
			return &Mismatch{fmt.Sprintf("matchConditions[%d]", i), fmt.Sprintf("the condition %q is false: %s",
				condition.Name, condition.Expression)}
		}
	}
	return nil
}

// SelectsIn reports, as far as a type and a namespace with labels decide, whether Mismatch may be nil for an object (some), and whether it
// is nil for each object and each client (all): then the match has no object selector and no conditions, and does not exclude the API
// server's own requests.
func (m *Matcher) SelectsIn(resource schema.GroupVersionResource, namespace string, labels map[string]string,
	ownNamespace string) (some, all bool) {
	some = m.SelectsResource(resource) && (namespace == "" || !IsProtectedNamespace(namespace, ownNamespace)) &&
		m.SelectsNamespace(namespace, labels)
	return some, some && m.objects.Empty() && m.conditions == nil && !m.needsGuard
}

// unmet returns a text about the first requirement of a selector that labels do not meet or, if they meet all, that what is not selected;
// it is never empty. what names the object that has the labels.
func unmet(selector labels.Selector, of labels.Set, what string) string {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if r.Matches(of) {
			continue
		}
		has := "does not have this label"
		if value, ok := of[r.Key()]; ok {
			has = fmt.Sprintf("has %s=%s", r.Key(), value)
		}
		return fmt.Sprintf("requires %s, and %s %s", strings.TrimSpace(r.String()), what, has)
	}
	return what + " is not selected"
}
