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

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berth-dev/berth/internal/placement"
)

// TestOwnEvents checks that Events of other controllers, and those that Berth does not emit on objects, are not taken for Berth's.
func TestOwnEvents(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	event := func(minute int, controller, reason string) corev1.Event {
		return corev1.Event{EventTime: metav1.NewMicroTime(at.Add(time.Duration(minute) * time.Minute)), ReportingController: controller, Reason: reason, Message: reason}
	}
	got := ownEvents([]corev1.Event{
		event(3, "berth", "PlacementDenied"), event(1, "berth", "PlacementRemediated"), event(2, "berth", "QuotaUnchecked"),
		event(4, "other", "PlacementDenied"), event(5, "", "PlacementDenied"), event(6, "berth", "PlacementOfTheirs"), event(7, "berth", "QuotaDenied"),
		event(8, "berth", "Scheduled"),
	})
	want := []recordedEvent{
		{at.Add(time.Minute), "PlacementRemediated", "PlacementRemediated"}, {at.Add(2 * time.Minute), "QuotaUnchecked", "QuotaUnchecked"},
		{at.Add(3 * time.Minute), "PlacementDenied", "PlacementDenied"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPrintRecorded checks that the text tells apart what a policy decided, what another client has changed since, and what is not known.
func TestPrintRecorded(t *testing.T) {
	const start = `Deployment shop/web
This is what Berth recorded at the object. You may not read what decides it, so the rule, and the reasons, are missing.
Neither the record nor the Events are verified: users who may write the object, or create Events, may have forged them.

Values
`
	for name, test := range map[string]struct {
		record placement.ObjectRecord
		want   string
	}{
		"Values": {placement.ObjectRecord{Values: []placement.Recorded{
			{Field: "labels", Key: "tier", Policy: "tiers", Current: new("gold"), Requested: new("bronze")},
			{Field: "labels", Key: "zone", Policy: "zones", Current: new("a"), Requested: new("a"), Changed: true},
			{Field: "labels", Key: "gone", Policy: "zones", Changed: true},
			{Field: "scheduling", Key: "schedulerName", Policy: "pools", Unknown: "the reason"},
			{Field: "clusters", Key: "spec.clusters", Current: new(`["eu-1"]`)},
		}}, `  label tier: gold
    decided by tiers; requested: bronze
  label zone: a
    recorded for zones, and changed since by another client, so the current value counts as requested
  label gone: (none)
    recorded for zones, and changed since by another client, so the current value counts as requested
  scheduling schedulerName: unknown: the reason
    recorded for pools; requested: (none)
  spec.clusters: ["eu-1"]
    decided by a policy; requested: (none)
`},
		"None":       {placement.ObjectRecord{}, "  No policy has set a value, or each value is the one that was requested.\n"},
		"Copied":     {placement.ObjectRecord{CopiedFrom: "Deployment web"}, "  The record is a copy of that of Deployment web, which controls the object: explain that instead.\n"},
		"Unreadable": {placement.ObjectRecord{Unreadable: true}, "  Unknown: the record, annotation placement.berth.dev/requested, can't be read.\n"},
	} {
		var out bytes.Buffer
		printRecorded(newPrinter(&out), recordedAt{Object: "Deployment shop/web", ObjectRecord: test.record, Missing: []string{"the right"}})
		if diff := cmp.Diff(start+test.want+"\nMissing\n  the right\n", out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// tenantsAPI serves what a user sees who may read the objects of one namespace, but neither policies nor Secrets.
func tenantsAPI(t *testing.T) (address string) {
	t.Helper()
	forbidden := func(resource, name string) any {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, nil).Status()
	}
	resources := func(groupVersion string, list ...metav1.APIResource) *metav1.APIResourceList {
		for i := range list {
			list[i].Verbs = metav1.Verbs{"get", "list", "watch"}
		}
		return &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion, APIResources: list}
	}
	group := func(name, version string) metav1.APIGroup {
		served := metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version, Version: version}
		return metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served}
	}
	object := func(apiVersion, kind, name, record string, owners ...any) any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{
			"namespace": "shop", "name": name, "uid": name, "ownerReferences": owners,
			"labels": map[string]any{"tier": "gold"}, "annotations": map[string]any{"placement.berth.dev/requested": record},
		}}
	}
	web := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true}
	answers := map[string]any{
		"/api": &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis": &metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []metav1.APIGroup{
				group("apps", "v1"), group("placement.berth.dev", "v1alpha1"), group("example.com", "v1"),
			},
		},
		"/api/v1": resources("v1", metav1.APIResource{Name: "events", Kind: "Event", Namespaced: true}),
		"/apis/apps/v1": resources("apps/v1", metav1.APIResource{Name: "deployments", Kind: "Deployment", Namespaced: true},
			metav1.APIResource{Name: "replicasets", Kind: "ReplicaSet", Namespaced: true}),
		"/apis/placement.berth.dev/v1alpha1":                   resources("placement.berth.dev/v1alpha1", metav1.APIResource{Name: "placementpolicies", Kind: "PlacementPolicy"}),
		"/apis/placement.berth.dev/v1alpha1/placementpolicies": forbidden("placementpolicies", ""),
		"/apis/apps/v1/namespaces/shop/deployments/web":        object("apps/v1", "Deployment", "web", `{"labels": {"tier": {"by": "tiers", "set": "0"}}}`),
		"/apis/example.com/v1":                                 resources("example.com/v1", metav1.APIResource{Name: "trainings", Kind: "Training", Namespaced: true}),
		"/apis/example.com/v1/namespaces/shop/trainings/web":   object("example.com/v1", "Training", "web", `{"scheduling": {"schedulerName": {"by": "pools", "set": "0"}}}`),
		"/apis/apps/v1/namespaces/shop/replicasets/web-1":      object("apps/v1", "ReplicaSet", "web-1", "{}", web),
		"/apis/apps/v1/namespaces/shop/deployments/hidden":     forbidden("deployments", "hidden"),
		"/api/v1/namespaces/shop":                              &corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}},
		"/api/v1/namespaces/shop/events": &corev1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}, Items: []corev1.Event{
			{ReportingController: "berth", Reason: "PlacementRemediated", Message: "moved"}, {ReportingController: "other", Reason: "PlacementRemediated", Message: "of another controller"},
			{
				ReportingController: "berth", Reason: "PlacementRemediated", Message: "20 more objects were patched",
				InvolvedObject: corev1.ObjectReference{Kind: "Namespace", Namespace: "shop", Name: "shop"},
			},
		}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if !known {
			path := strings.Split(r.URL.Path, "/")
			answer = apierrors.NewNotFound(schema.GroupResource{Resource: path[max(0, len(path)-2)]}, path[len(path)-1]).Status()
			if strings.HasSuffix(filepath.Dir(r.URL.Path), "/secrets") {
				answer = forbidden("secrets", path[len(path)-1])
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if status, failed := answer.(metav1.Status); failed {
			status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			answer = status
			w.WriteHeader(int(status.Code))
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestExplainRecorded checks what the command says to a user who may not read policies.
func TestExplainRecorded(t *testing.T) {
	address := tenantsAPI(t)
	const noPolicies, unverified = "bind the ClusterRole whose name ends with placementpolicy-viewer-role to you", "Neither the record nor the Events are verified"
	for name, test := range map[string]struct {
		args []string
		want []string
		// without are texts that the output does not have.
		without []string
		// err is a part of the error; "" if there is none.
		err string
	}{
		"Object": {
			args: []string{"deployment/web"}, want: []string{"label tier: gold\n    recorded for tiers, and changed since", "PlacementRemediated: moved",
				"PlacementRemediated: objects of the namespace without an Event of their own: 20 more objects were patched", noPolicies, unverified},
			without: []string{"of another controller", "--why-not and --limit"},
		},
		"JSON":       {args: []string{"deployment/web", "-o", "json"}, want: []string{`"recorded": true`, `"changed": true`}},
		"ReplicaSet": {args: []string{"replicaset/web-1"}, want: []string{"a copy of that of Deployment web"}, without: []string{"decided by"}},
		"WhyNot":     {args: []string{"deployment/web", "--why-not", "eu-1"}, want: []string{"--why-not and --limit have no effect here"}},
		"Limit":      {args: []string{"deployment/web", "--limit", "20"}, want: []string{"--why-not and --limit have no effect here"}},
		"Undeclared": {
			args: []string{"training/web"}, want: []string{"scheduling schedulerName: unknown: it is not known where objects of kind Training have their pod spec: the manager's configuration has to say it, under podTemplates", "name the file by --config"},
		},
		"NoSuch": {args: []string{"deployment/wbe"}, err: `"wbe" not found`},
		"Hidden": {args: []string{"deployment/hidden"}, err: noPolicies},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
			flags := genericclioptions.NewConfigFlags(true)
			flags.APIServer, flags.Namespace, flags.CacheDir = &address, new("shop"), new(t.TempDir())
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			cmd := newExplain(flags, streams)
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			cmd.SetArgs(test.args)
			err := cmd.ExecuteContext(t.Context())
			if text := fmt.Sprint(err); (err == nil) != (test.err == "") || !strings.Contains(text, test.err) {
				t.Fatalf("error %q, want %q", text, test.err)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
			for _, other := range test.without {
				if strings.Contains(out.String(), other) {
					t.Errorf("%q is in:\n%s", other, out)
				}
			}
		})
	}
}
