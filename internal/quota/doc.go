// Package quota decides requests against ScopedQuotas, ClusterScopedQuotas, and LimitedResources, and counts what
// objects take.
//
// For each quota and limit, the package generates a policy module from the spec. The module decides whether the quota
// applies to an object, what it covers, and whether it is exceeded. Kubernetes' own quota evaluators measure what an
// object takes. The results are those of the API server's ResourceQuota plug-in
// (k8s.io/apiserver/pkg/admission/plugin/resourcequota, CheckRequest), with one exception. If Berth does not know the
// usage yet, the request is not denied for good: the client is asked to try again.
package quota
