package v1alpha1

// UndefinedResult says what an answer without a result means.
//
// +kubebuilder:validation:Enum=NoOpinion;Error
type UndefinedResult string

const (
	// UndefinedNoOpinion means that the policy says nothing of the object.
	UndefinedNoOpinion UndefinedResult = "NoOpinion"
	// UndefinedError means that the engine does not have the policy, so that the object can't be decided.
	UndefinedError UndefinedResult = "Error"
)

// Remote is a policy engine that is asked over HTTP: OPA's data API, or what any other engine has in its form. The object
// goes in as `input`, and the decision comes back as `result`, with the rules of the decision contract.
//
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('https://') || self.url.startsWith('http://')",message="must begin with https:// or http://",fieldPath=".url"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('http://') || (has(self.insecure) && self.insecure)",message="plain http needs insecure: true",fieldPath=".url"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('http://') || (!has(self.caBundle) && !has(self.caSecretRef) && !has(self.clientCertificateSecretRef))",message="certificates are for https",fieldPath=".url"
// +kubebuilder:validation:XValidation:rule="!has(self.caBundle) || !has(self.caSecretRef)",message="caBundle and caSecretRef exclude each other",fieldPath=".caSecretRef"
type Remote struct {
	// url is the document that is asked for. With a path /v1/data/... it is asked in the form of OPA's data API, and so
	// with any other path but /v0/data/..., which stands for that API's older form: the object itself goes in, and the
	// document itself comes back. It has neither user and password nor query or fragment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// insecure allows plain http, by which objects and token can be read, and answers be changed, on their way.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// tokenSecretRef is the bearer token that Berth shows.
	// +optional
	TokenSecretRef *TokenSecretReference `json:"tokenSecretRef,omitempty"`

	// caBundle are the authorities, in PEM, one of which has to have signed the engine's certificate. Without it and
	// caSecretRef it is one of the system's.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	CABundle []byte `json:"caBundle,omitempty"`

	// caSecretRef is a Secret that has the authorities.
	// +optional
	CASecretRef *CASecretReference `json:"caSecretRef,omitempty"`

	// clientCertificateSecretRef is the certificate that Berth shows, a Secret of type kubernetes.io/tls.
	// +optional
	ClientCertificateSecretRef *SecretReference `json:"clientCertificateSecretRef,omitempty"`

	// timeoutSeconds is how long one attempt may take. All attempts together have the time that the API server waits for
	// Berth. Defaults to 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// retry says how often, and after what pauses, a failed attempt is repeated.
	// +optional
	Retry RemoteRetry `json:"retry,omitzero"`

	// cacheSeconds is for how long an answer may be given again to the same object; 0, the default, for never.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	CacheSeconds int32 `json:"cacheSeconds,omitempty"`

	// refreshSeconds is after what time existing objects are decided anew though nothing changed that Berth knows of: the
	// engine may have other policies and data by then. 0, the default, for never.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 10",message="must be 0 or at least 10"
	RefreshSeconds int32 `json:"refreshSeconds,omitempty"`

	// undefined says what an answer without a result means: that the policy says nothing of the object (NoOpinion), or
	// that the engine does not have the policy (Error). A package of OPA's is undefined only where it does not have it.
	// Absent, it means NoOpinion.
	// +optional
	Undefined UndefinedResult `json:"undefined,omitempty"`

	// replicate lists the resource types whose objects Berth keeps in the engine, by its data API: at
	// data.kubernetes.<plural>[<namespace>][<name>] and data.resources["<group>/<version>"].<plural>, and clusters at
	// data.clusters. Nothing is decided before they are there. It needs an url below /v1/data or /v0/data.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Replicate []ReplicatedResource `json:"replicate,omitempty"`

	// modules are texts in Rego that Berth keeps in the engine, by its policy API. Nothing is decided before they are
	// there. It needs an url below /v1/data or /v0/data.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Modules []RemoteModule `json:"modules,omitempty"`
}

// SecretReference names a Secret of the operator's own namespace.
type SecretReference struct {
	// name is the Secret's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// TokenSecretReference names a Secret of the operator's own namespace, and where in it the token is.
type TokenSecretReference struct {
	SecretReference `json:",inline"`

	// key is where in the Secret's data the token is. Defaults to token.
	// +optional
	// +default="token"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// CASecretReference names a Secret of the operator's own namespace, and where in it the authorities are.
type CASecretReference struct {
	SecretReference `json:",inline"`

	// key is where in the Secret's data the authorities are, in PEM. Defaults to ca.crt.
	// +optional
	// +default="ca.crt"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// RemoteRetry bounds how failed attempts are repeated.
//
// +kubebuilder:validation:XValidation:rule="!has(self.initialBackoffMilliseconds) || !has(self.maxBackoffMilliseconds) || self.initialBackoffMilliseconds <= self.maxBackoffMilliseconds",message="must not be less than initialBackoffMilliseconds",fieldPath=".maxBackoffMilliseconds"
type RemoteRetry struct {
	// maxAttempts is how often the engine is asked at most, the first time included. Defaults to 3.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// initialBackoffMilliseconds is about how long the first pause is; each is twice as long as the one before.
	// Defaults to 100.
	// +optional
	// +default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30000
	InitialBackoffMilliseconds int32 `json:"initialBackoffMilliseconds,omitempty"`

	// maxBackoffMilliseconds is about how long a pause is at most, but for what the engine itself asks for. Defaults to
	// 1000.
	// +optional
	// +default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30000
	MaxBackoffMilliseconds int32 `json:"maxBackoffMilliseconds,omitempty"`
}

// RemoteModule is a text in Rego for a policy engine.
type RemoteModule struct {
	// name tells the policy's modules apart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// rego is the text, in the language's version that the engine reads. One that calls functions of another comes after
	// that.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Rego string `json:"rego,omitempty"`
}
