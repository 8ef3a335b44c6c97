// Package quota decides what ScopedQuotas, ClusterScopedQuotas and LimitedResources allow, and counts what objects take.
//
// Whether a quota matches, what it covers and whether it is exceeded is decided by a policy module that is generated
// from its spec. What an object takes is measured by Kubernetes' own evaluators. Verdicts are those of the API
// server's ResourceQuota plug-in (k8s.io/apiserver/pkg/admission/plugin/resourcequota, CheckRequest), save that a
// request is never denied for what Berth does not know yet: it is asked to try again.
package quota
