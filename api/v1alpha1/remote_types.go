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

package v1alpha1

// UndefinedResult is the meaning of a response without a result.
//
// +kubebuilder:validation:Enum=NoOpinion;Error
type UndefinedResult string

const (
	// UndefinedNoOpinion means that the policy has no decision on the object.
	UndefinedNoOpinion UndefinedResult = "NoOpinion"
	// UndefinedError means that the engine does not have the policy, so the object can't be decided.
	UndefinedError UndefinedResult = "Error"
)

// Remote is a policy engine that decides over HTTP, with OPA's data API or a compatible one. It returns the rules of
// the decision contract.
//
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('https://') || self.url.startsWith('http://')",message="must begin with https:// or http://",fieldPath=".url"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('http://') || (has(self.insecure) && self.insecure)",message="plain http needs insecure: true",fieldPath=".url"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('http://') || (!has(self.caBundle) && !has(self.caSecretRef) && !has(self.clientCertificateSecretRef))",message="certificates are for https",fieldPath=".url"
// +kubebuilder:validation:XValidation:rule="!has(self.caBundle) || !has(self.caSecretRef)",message="caBundle and caSecretRef exclude each other",fieldPath=".caSecretRef"
type Remote struct {
	// url is the URL of the document that Berth queries. Berth sends the object as `input` and reads the decision from
	// `result`, as in OPA's v1 data API. Below /v0/data/, it sends the object itself and reads the decision itself. The
	// URL must have no user, password, query or fragment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// insecure allows plain HTTP. Others on the network can then read the objects and the token, and change the responses.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// tokenSecretRef names the Secret with the bearer token that Berth sends.
	// +optional
	TokenSecretRef *TokenSecretReference `json:"tokenSecretRef,omitempty"`

	// caBundle has the PEM-encoded CA certificates that verify the certificate of the engine. If neither caBundle nor
	// caSecretRef is set, Berth uses those of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	CABundle []byte `json:"caBundle,omitempty"`

	// caSecretRef names a Secret with the CA certificates, in place of caBundle.
	// +optional
	CASecretRef *CASecretReference `json:"caSecretRef,omitempty"`

	// clientCertificateSecretRef names a Secret of type kubernetes.io/tls with the client certificate that Berth
	// presents.
	// +optional
	ClientCertificateSecretRef *SecretReference `json:"clientCertificateSecretRef,omitempty"`

	// timeoutSeconds is the timeout of one attempt. All attempts together are bounded by the time that the API server
	// waits for Berth. Must be from 1 to 30. Defaults to 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// retry configures how often and after what delays Berth repeats a failed attempt.
	// +optional
	Retry RemoteRetry `json:"retry,omitzero"`

	// cacheSeconds is how long Berth may reuse a response for an object with the same content. 0 disables the cache. Must
	// be from 0 to 3600. Defaults to 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	CacheSeconds int32 `json:"cacheSeconds,omitempty"`

	// refreshSeconds is the interval at which Berth decides existing objects again even if it sees no change: the engine
	// may have changed. 0 disables that. Must be 0 or from 10 to 86400. Defaults to 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 10",message="must be 0 or at least 10"
	RefreshSeconds int32 `json:"refreshSeconds,omitempty"`

	// undefined is the meaning of a response without a result. NoOpinion: the policy has no decision on the object. Error:
	// the engine does not have the policy, so the object can't be decided. OPA gives no result if the package is not
	// loaded. If unset, it means NoOpinion.
	// +optional
	Undefined UndefinedResult `json:"undefined,omitempty"`

	// replicate lists the resource types whose objects Berth pushes to the engine with OPA's data API: to
	// data.kubernetes.<plural>[<namespace>][<name>] and data.resources["<group>/<version>"].<plural>, and clusters to
	// data.clusters. Until they are there, the policy can't decide. Requires a url below /v1/data or /v0/data. At most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Replicate []ReplicatedResource `json:"replicate,omitempty"`

	// modules lists Rego modules that Berth pushes to the engine with OPA's policy API. Until they are there, the policy
	// can't decide. Requires a url below /v1/data or /v0/data. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Modules []RemoteModule `json:"modules,omitempty"`
}

// SecretReference names a Secret in the operator's own namespace.
type SecretReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// TokenSecretReference names a Secret in the operator's own namespace and the key that holds the token.
type TokenSecretReference struct {
	SecretReference `json:",inline"`

	// key is the key in the Secret's data that holds the token. Defaults to token.
	// +optional
	// +default="token"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// CASecretReference names a Secret in the operator's own namespace and the key that holds the CA certificates.
type CASecretReference struct {
	SecretReference `json:",inline"`

	// key is the key in the Secret's data that holds the PEM-encoded CA certificates. Defaults to ca.crt.
	// +optional
	// +default="ca.crt"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// RemoteRetry configures how failed attempts are repeated.
//
// +kubebuilder:validation:XValidation:rule="!has(self.initialBackoffMilliseconds) || !has(self.maxBackoffMilliseconds) || self.initialBackoffMilliseconds <= self.maxBackoffMilliseconds",message="must not be less than initialBackoffMilliseconds",fieldPath=".maxBackoffMilliseconds"
type RemoteRetry struct {
	// maxAttempts is the maximum number of requests for one decision, including the first. Must be from 1 to 10. Defaults
	// to 3.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// initialBackoffMilliseconds is the approximate delay before the first retry. Each further delay is twice as long.
	// Must be from 1 to 30000. Defaults to 100.
	// +optional
	// +default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30000
	InitialBackoffMilliseconds int32 `json:"initialBackoffMilliseconds,omitempty"`

	// maxBackoffMilliseconds is the approximate maximum delay. A longer delay applies if the engine requests it. Must be
	// from 1 to 30000. Defaults to 1000.
	// +optional
	// +default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30000
	MaxBackoffMilliseconds int32 `json:"maxBackoffMilliseconds,omitempty"`
}

// RemoteModule is a Rego module that Berth pushes to a policy engine.
type RemoteModule struct {
	// name identifies the module among those of the policy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// rego is the source of the module, in the Rego version that the engine reads. List a module after those whose
	// functions it calls. At most 65536 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Rego string `json:"rego,omitempty"`
}
