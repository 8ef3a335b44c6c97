// Package quota decides what ScopedQuotas, ClusterScopedQuotas and LimitedResources allow.
package quota

import (
	_ "k8s.io/kubernetes/pkg/apis/core/validation"
	_ "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
)
