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

package setup

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/leaderelection"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/controllers/webhookconfiguration"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/freshness"
	"github.com/berth-dev/berth/internal/predicates"
)

// Values of Options.WebhookCertManagement: what writes the Secret with the webhooks' certificate.
const (
	CertManagementSelf     = "self"
	CertManagementExternal = "external"
)

// Values of Options.StateCluster: the cluster of Berth's own state, which is its Secrets, its lease and the last good
// versions of policies.
const (
	StateClusterServed = "served"
	StateClusterHost   = "host"
)

// Values of Options.DecisionLog that are no address.
const (
	DecisionLogOff    = "off"
	DecisionLogStdout = "stdout"
)

// Options configure a manager.
type Options struct {
	// Namespace is Berth's own namespace, in the cluster that StateCluster selects. It contains Berth's own state. If that
	// is the served cluster, the webhooks never match objects in the namespace.
	Namespace string
	// StateCluster selects the cluster that has Namespace. StateClusterServed, the default for "", is the cluster whose API server Berth
	// serves. StateClusterHost is another cluster, the one of HostKubeconfig. In that case Berth has no namespace of its own in the served
	// cluster, and a namespace of the same name there is treated like any other.
	StateCluster string
	// HostKubeconfig is the path of a kubeconfig for the host cluster, for StateClusterHost. It is empty if Berth is a pod of that cluster.
	HostKubeconfig string
	// WebhookURL is the base URL at which the API server reaches the webhooks. If it is empty, the API server uses WebhookService.
	WebhookURL string
	// WebhookService is the name of the Service in Namespace for the webhooks.
	WebhookService string
	// OwnerClusterRole is the name of the ClusterRole that owns the webhook configurations, so that they are deleted with it. If it is empty,
	// none does.
	OwnerClusterRole string
	// OwnerClusterServiceVersion is the name of the ClusterServiceVersion in Namespace with which OLM installed Berth; empty for an
	// installation without OLM. If it is set, the ClusterRoles that OLM created for it own the webhook configurations instead of
	// OwnerClusterRole.
	OwnerClusterServiceVersion string
	// WebhookHost is the address at which the webhooks listen. If it is empty, they listen at all addresses.
	WebhookHost string
	WebhookPort int // the port at which the webhooks listen; 0 means 9443
	// WebhookCertManagement selects what writes the Secret with the webhooks' certificate: Berth for
	// CertManagementSelf, which is the default for "", or another program for CertManagementExternal. New returns an error for any
	// other value.
	WebhookCertManagement string
	// WebhookCAOverlap is how long the API server still trusts a certificate authority after another one replaced it. 0 means an hour.
	WebhookCAOverlap time.Duration
	// WebhookTokenLifetime is how long the token in the webhooks' paths is used before it is replaced. 0 means an hour.
	WebhookTokenLifetime time.Duration
	// WebhookTokenSettle is how long replicas have to learn a new token before the API server uses it. 0 means 10 seconds.
	WebhookTokenSettle time.Duration
	// WebhookTokenOverlap is how long a token is accepted after the webhook configurations contain the next one. 0 means a minute.
	WebhookTokenOverlap time.Duration
	// WebhookClientCAFile is the path of a PEM file with the authorities of the client certificate that the webhooks require from the API
	// server. If it is empty, they require none.
	WebhookClientCAFile string
	// WebhookClientNames are names of which the API server's client certificate must have one, as its common name or a DNS name. If there
	// are none, any name is accepted. New returns an error for names without WebhookClientCAFile.
	WebhookClientNames []string
	// MetricsAddress is the address at which metrics are served. It is empty or "0" for no metrics.
	MetricsAddress string
	// MetricsSecure reports whether metrics are served over HTTPS, and only to clients that the API server authenticates and authorizes.
	MetricsSecure bool
	// ProbeAddress is the address at which /healthz and /readyz are served. If it is empty or "0", they are not served.
	ProbeAddress string
	// PprofAddress is the address at which profiles are served, without authentication. It is empty or "0" for no profiles.
	PprofAddress string
	// TracingEndpoint is the URL of the OpenTelemetry collector that gets traces over gRPC: http://host:port, or https:// for TLS. It is empty
	// for no traces. New returns an error for another scheme or without a host.
	TracingEndpoint string
	// TracingSamplingPerMillion is how many of a million traces that begin in Berth are recorded.
	TracingSamplingPerMillion int
	// DecisionLog is where the log of decisions is written: DecisionLogOff, DecisionLogStdout, or the URL of a collector of the form that
	// TracingEndpoint has. "" means DecisionLogOff.
	DecisionLog string
	// DecisionLogOutput is written to instead of the standard output if DecisionLog is DecisionLogStdout; nil for the standard output.
	DecisionLogOutput io.Writer
	// LeaderElection enables leader election. Without it, only one replica may run.
	LeaderElection bool
	// LeaseDuration is how long other replicas wait for a leader that does not renew its lease before one of them becomes the leader. The
	// leader itself gives up after RenewDeadline. All replicas try to acquire or renew the lease every RetryPeriod. If all
	// three are 0, they are 15, 10, and 2 seconds, the defaults of controller-runtime. If only some are 0, New returns an error.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// ShutdownDelay is how long a manager keeps running after it is told to stop. Meanwhile the webhooks close each connection after its next
	// response, so that the API server connects to another replica. The readiness check does not fail for that. 0 means no delay.
	ShutdownDelay time.Duration
	// EvaluationTimeout is the deadline for the evaluation of one policy on one object by the embedded engine. It must be positive. The
	// deadline of a remote engine is spec.remote.timeoutSeconds of the policy instead.
	EvaluationTimeout time.Duration
	// EvaluationConcurrency is the maximum number of concurrent evaluations by the embedded engine, of all policies together. It must be
	// positive.
	EvaluationConcurrency int
	// Predicates are the predicates that policies may use, in the order in which they are evaluated. nil means the default list, and an
	// empty list none. New returns an error for an unknown name.
	Predicates []string
	// OwnPredicates are predicates that are available besides those of the Kubernetes scheduler. The default list of Predicates has them too.
	OwnPredicates []predicates.Predicate
	// Config is the path of the configuration file. It is empty for none. New returns an error if the file is missing or invalid.
	Config string
	// PolicyMaxStaleness is for how long a replica responds to admission requests after the API server last confirmed that the replica has
	// all policies. 0 means freshness.DefaultBound.
	PolicyMaxStaleness time.Duration
	// PolicyReports are the API groups of the policy reports in which the leader lists violations. It is empty for no reports. New returns an
	// error for an unknown group.
	PolicyReports []string
	// ReservationTTL is how long a charge to a quota is kept while its object is not seen to exist. It must be longer than the API server's
	// timeout of a request, 1 minute by default. New does not check that.
	ReservationTTL time.Duration
	// RemediationMaxPerMinute is the maximum number of existing objects that Berth patches per minute, for all policies together. 0 means no
	// maximum.
	RemediationMaxPerMinute int
	// RemediationMaxConcurrent is the maximum number of existing objects that Berth moves at the same time, for all policies together. An
	// object is being moved from its patch until its rollout is complete. 0 means no maximum.
	RemediationMaxConcurrent int
	// AllowRemoteSecrets allows policies with spec.remote to name the resource type secrets in spec.match and spec.remote.replicate. Remote
	// engines get Secrets without their data in any case.
	AllowRemoteSecrets bool
	// Metrics is the registry for Berth's metrics. nil means the registry that MetricsAddress serves.
	Metrics prometheus.Registerer
}

// Bind defines the manager's flags, which set the options. Set OwnPredicates before, because the default of --predicates depends on them.
// Where a default depends on the environment, the default in the help says how.
func (o *Options) Bind(f *flag.FlagSet) {
	f.StringVar(&o.Namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "berth-system"), "Berth's own namespace, in which "+
		"policies match nothing.")
	f.Lookup("namespace").DefValue = "$POD_NAMESPACE, else berth-system"
	f.StringVar(&o.StateCluster, "state-cluster", StateClusterServed, "Cluster with Berth's own namespace: served, or host, if "+
		"that is another one (docs/remote-control-plane.md).")
	f.StringVar(&o.HostKubeconfig, "host-kubeconfig", "", "Path of a kubeconfig for the host cluster; else the pod's cluster.")
	f.StringVar(&o.WebhookURL, "webhook-url", "", "Base URL of the webhooks, if they have no Service.")
	f.StringVar(&o.WebhookService, "webhook-service", "berth-webhook-service", "Service of the webhooks, in Berth's own namespace.")
	f.StringVar(&o.OwnerClusterRole, "owner-cluster-role", "", "ClusterRole that owns the webhook configurations "+
		"(docs/install.md#uninstalling); while it is missing, none are created.")
	f.StringVar(&o.OwnerClusterServiceVersion, "owner-cluster-service-version", os.Getenv("OPERATOR_CONDITION_NAME"),
		"ClusterServiceVersion whose ClusterRoles own these configurations, under OLM.")
	f.Lookup("owner-cluster-service-version").DefValue = "$OPERATOR_CONDITION_NAME"
	f.StringVar(&o.WebhookHost, "webhook-host", "", "Address of the webhooks; else all.")
	f.IntVar(&o.WebhookPort, "webhook-port", 9443, "Port of the webhooks.")
	f.StringVar(&o.WebhookCertManagement, "webhook-cert-management", CertManagementSelf, "What writes the Secret berth-webhook-cert: self, "+
		"for Berth, or external, such as cert-manager.")
	f.DurationVar(&o.WebhookTokenLifetime, "webhook-token-lifetime", time.Hour,
		"How long a token (docs/operating.md#who-may-call-the-webhooks) is used; at least a minute.")
	f.StringVar(&o.WebhookClientCAFile, "webhook-client-ca-file", "", "PEM file with the CA certificates of the required client certificate "+
		"(docs/operating.md#client-certificates).")
	f.Var((*nameList)(&o.WebhookClientNames), "webhook-client-names", "Accepted common or DNS names of that certificate, separated "+
		"by commas; else any.")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", "0", "Address of metrics; 0 disables them.")
	f.BoolVar(&o.MetricsSecure, "metrics-secure", true, "Serve metrics over HTTPS, only to authorized clients.")
	f.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz; 0 disables them.")
	f.StringVar(&o.PprofAddress, "pprof-bind-address", "", "Address of profiles, which any client may read, such as localhost:6060.")
	f.StringVar(&o.TracingEndpoint, "tracing-endpoint", "", "OpenTelemetry collector that gets traces "+
		"(docs/operating.md#traces), such as http://collector:4317, or https:// for TLS.")
	f.IntVar(&o.TracingSamplingPerMillion, "tracing-sampling-rate-per-million", 10000, "How many of a million traces that begin in Berth "+
		"are recorded.")
	f.StringVar(&o.DecisionLog, "decision-log", DecisionLogOff, "Where decisions are logged (docs/decision-log.md): stdout, off, or an "+
		"OpenTelemetry collector, such as http://collector:4317, or https:// for TLS.")
	f.BoolVar(&o.LeaderElection, "leader-elect", false, "Elect a leader among the replicas. Without it, run only one replica.")
	f.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"Time until another replica replaces a lost leader (docs/scaling.md#replicas).")
	f.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"How long the leader tries to renew its lease before it ends; shorter than the lease.")
	f.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "Interval between attempts to get or to renew "+
		"the lease.")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay", 5*time.Second, "How long a replica that is shutting down still answers.")
	o.Predicates = defaultPredicates(o.OwnPredicates)
	f.Var((*nameList)(&o.Predicates), "predicates", "Predicates (docs/predicates.md) that policies may use, in the order "+
		"in which they are evaluated.")
	f.StringVar(&o.Config, "config", "", "Path of a configuration file (docs/operating.md#configuration-file).")
	f.DurationVar(&o.PolicyMaxStaleness, "policy-max-staleness", freshness.DefaultBound, "How long a replica answers that can't "+
		"learn whether it has the newest policies (docs/failure.md#a-replica-that-is-cut-off).")
	f.Var((*nameList)(&o.PolicyReports), "policy-reports", "API groups of the policy reports (docs/operating.md#policy-reports): "+
		"openreports.io, wgpolicyk8s.io, or both, separated by commas.")
	o.ReservationTTL = 65 * time.Second
	f.Var((*reservationTTL)(&o.ReservationTTL), "quota-reservation-ttl",
		"How long a charge to a quota is kept while its object does not exist; longer than the API server's --request-timeout.")
	f.IntVar(&o.RemediationMaxConcurrent, "remediation-max-concurrent", 0, "Existing objects that move at the same time, for all policies; "+
		"0 for no bound.")
	f.IntVar(&o.RemediationMaxPerMinute, "remediation-max-per-minute", 0, "Existing objects that are patched a minute, for all policies; "+
		"0 for no bound.")
	f.BoolVar(&o.AllowRemoteSecrets, "allow-remote-secrets", false,
		"Let policies with a remote engine (docs/remote-engines.md) match Secrets, which it gets without their data.")
	f.DurationVar(&o.EvaluationTimeout, "evaluation-timeout", time.Second,
		"Deadline for one policy on one object. Remote engines have spec.remote.timeoutSeconds.")
	f.IntVar(&o.EvaluationConcurrency, "evaluation-concurrency", embedded.DefaultConcurrency(runtime.GOMAXPROCS(0)), "How many "+
		"policies are evaluated at the same time (docs/contract.md#functions-and-limits).")
	f.Lookup("evaluation-concurrency").DefValue = "2 per CPU, at least 4"
}

// registerer returns Options.Metrics or, if it is nil, the registry that MetricsAddress serves.
func (o *Options) registerer() prometheus.Registerer {
	if o.Metrics != nil {
		return o.Metrics
	}
	return ctrlmetrics.Registry
}

// checkElection returns an error, with the name of the flag, for durations of leader election with which a leader would lose its lease:
// LeaseDuration must be longer than RenewDeadline, which must be longer than 1.2 times RetryPeriod (leaderelection.JitterFactor). It
// returns nil if all three are 0, which selects the defaults, and an error if only some are.
func (o *Options) checkElection() error {
	if o.LeaseDuration == 0 && o.RenewDeadline == 0 && o.RetryPeriod == 0 {
		return nil
	}
	if o.LeaseDuration <= o.RenewDeadline {
		return fmt.Errorf("--leader-elect-lease-duration %s: must be longer than --leader-elect-renew-deadline, which is %s",
			o.LeaseDuration, o.RenewDeadline)
	}
	if shortest := time.Duration(leaderelection.JitterFactor * float64(o.RetryPeriod)); o.RetryPeriod <= 0 || o.RenewDeadline <= shortest {
		return fmt.Errorf("--leader-elect-renew-deadline %s: must be longer than %.1f times --leader-elect-retry-period, which is %s and must "+
			"be longer than 0", o.RenewDeadline, leaderelection.JitterFactor, o.RetryPeriod)
	}
	return nil
}

// reservationTTL is the value of the flag --quota-reservation-ttl. It must be longer than the time that the API server waits for the quota
// webhook, because every --request-timeout is. Tests set shorter times in Options.
type reservationTTL time.Duration

// String returns the duration in the form that time.ParseDuration reads. It implements flag.Value.
func (t *reservationTTL) String() string { return time.Duration(*t).String() }

// Set sets the value to the duration in a text. It returns an error if that is not longer than the timeout of the quota webhook. It
// implements flag.Value.
func (t *reservationTTL) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if d <= webhookconfiguration.QuotaTimeout {
		return fmt.Errorf("must be longer than the API server's --request-timeout, 1m by default, and longer than the timeout of the quota "+
			"webhook, %s", webhookconfiguration.QuotaTimeout)
	}
	*t = reservationTTL(d)
	return nil
}

// checkBounds returns an error, with the name of the flag, if RemediationMaxConcurrent or RemediationMaxPerMinute is negative, or if
// EvaluationTimeout or EvaluationConcurrency is not positive, so that each evaluation would fail.
func (o *Options) checkBounds() error {
	switch {
	case o.EvaluationTimeout <= 0:
		return fmt.Errorf("--evaluation-timeout %s: must be longer than 0", o.EvaluationTimeout)
	case o.EvaluationConcurrency <= 0:
		return fmt.Errorf("--evaluation-concurrency %d: must be 1 or greater", o.EvaluationConcurrency)
	case o.RemediationMaxConcurrent < 0:
		return fmt.Errorf("--remediation-max-concurrent %d: must be 0, for no bound, or greater", o.RemediationMaxConcurrent)
	case o.RemediationMaxPerMinute < 0:
		return fmt.Errorf("--remediation-max-per-minute %d: must be 0, for no bound, or greater", o.RemediationMaxPerMinute)
	}
	return nil
}

// owners returns which ClusterRoles own the webhook configurations: those with OLM's labels if OwnerClusterServiceVersion is set, else the
// one named OwnerClusterRole. If both are empty, nothing owns the configurations.
func (o *Options) owners() webhookconfiguration.Owners {
	out := webhookconfiguration.Owners{Name: o.OwnerClusterRole}
	if o.OwnerClusterServiceVersion != "" {
		out.Labels = webhookconfiguration.OLMLabels(o.Namespace, o.OwnerClusterServiceVersion)
	}
	return out
}

// exemptNamespace returns Berth's own namespace in the served cluster, in which policies and quotas match nothing; "" if there is none.
func (o *Options) exemptNamespace() string {
	if o.StateCluster == StateClusterHost {
		return ""
	}
	return o.Namespace
}

// hosts returns the names or addresses at which the API server calls the webhooks, for which their certificate must be valid: the host of
// WebhookURL or, if that is empty, the DNS names of WebhookService. It returns an error if WebhookURL is not https or has no host.
func (o *Options) hosts() ([]string, error) {
	if o.WebhookURL == "" {
		service := o.WebhookService + "." + o.Namespace
		return []string{service + ".svc", service + ".svc.cluster.local"}, nil
	}
	u, err := url.Parse(o.WebhookURL)
	if err != nil {
		return nil, fmt.Errorf("parsing --webhook-url: %w", err)
	}
	if u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("--webhook-url %q: must be https://<host name>:<port>", o.WebhookURL)
	}
	return []string{u.Hostname()}, nil
}
