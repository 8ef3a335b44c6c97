// Package match determines which objects a placement policy matches, by the conventions of
// admissionregistration.k8s.io. Its result in process equals the API server's result for the webhook configuration that
// Webhooks renders. So admission, remediation, and the command line select the same objects.
package match
