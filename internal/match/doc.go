// Package match decides which objects a placement policy is about, by the conventions of admissionregistration.k8s.io.
// What it decides in process equals what the API server decides from the webhook configuration that Webhooks renders,
// so that admission, remediation and the command line select the same objects.
package match
