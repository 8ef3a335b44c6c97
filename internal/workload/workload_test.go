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

package workload_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berth-dev/berth/internal/workload"
)

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func templates(t testing.TB) *workload.Templates {
	t.Helper()
	out, err := workload.NewTemplates(
		workload.Template{GroupResource: schema.GroupResource{Group: "example.com", Resource: "rollouts"}, Kind: "Rollout", Path: []string{"spec", "template"}},
		workload.Template{GroupResource: schema.GroupResource{Group: "example.com", Resource: "trainings"}, Kind: "Training", Path: []string{"spec", "worker", "pod"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pod is the pod template of all tests.
const pod = `{metadata: {labels: {app: web}, namespace: other}, spec: {nodeSelector: {disk: ssd}, tolerations: [{key: a, operator: Exists, tolerationSeconds: 30}],
 containers: [{name: a, image: a, resources: {requests: {cpu: 1, memory: 1Gi}}, ports: [{containerPort: 80}], readinessProbe: {tcpSocket: {port: 80}}}]}}`

// summary returns a workload on one line.
func summary(w workload.Workload) string {
	own := "none"
	if w.Own != nil {
		own = w.Own.String()
	}
	return fmt.Sprintf("%s/%s x%d own=%s labels=%s nodeSelector=%s", w.Pod.Namespace, w.Name, w.Replicas, own,
		labels.FormatLabels(w.Pod.Labels), labels.FormatLabels(w.Pod.Spec.NodeSelector))
}

const rest = " labels=app=web nodeSelector=disk=ssd"

func TestOf(t *testing.T) {
	selector := `selector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: Exists}]}`
	tests := map[string]struct{ text, want string }{
		"Pod":                 {"{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {nodeSelector: {disk: ssd}}}", "shop/web x1 own=none"},
		"BareTemplate":        {pod, "other/ x1 own=none"},
		"BareSpec":            {"{spec: {nodeSelector: {disk: ssd}}}", "default/ x1 own=none labels=<none> nodeSelector=disk=ssd"},
		"PodTemplate":         {"{apiVersion: v1, kind: PodTemplate, metadata: {name: web, namespace: shop}, template: " + pod + "}", "shop/ x1 own=none"},
		"Deployment":          {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 3, " + selector + ", template: " + pod + "}}", "shop/ x3 own=app=web,tier"},
		"Default":             {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: " + pod + "}}", "default/ x1 own=none"},
		"Zero":                {"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {namespace: shop}, spec: {replicas: 0, template: " + pod + "}}", "shop/ x1 own=none"},
		"StatefulSet":         {"{apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: shop}, spec: {replicas: 2, template: " + pod + "}}", "shop/ x2 own=none"},
		"OtherVersion":        {"{apiVersion: apps/v2, kind: StatefulSet, metadata: {namespace: shop}, spec: {replicas: 2, template: " + pod + "}}", "shop/ x2 own=none"},
		"DaemonSet":           {"{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: shop}, spec: {replicas: 7, " + selector + ", template: " + pod + "}}", "shop/ x1 own=app=web,tier"},
		"Controller":          {"{apiVersion: v1, kind: ReplicationController, metadata: {namespace: shop}, spec: {replicas: 2, selector: {app: web, a: b}, template: " + pod + "}}", "shop/ x2 own=a=b,app=web"},
		"Job":                 {"{apiVersion: batch/v1, kind: Job, metadata: {namespace: shop}, spec: {parallelism: 4, completions: 10, selector: {matchLabels: {uid: a}}, template: " + pod + "}}", "shop/ x4 own=uid=a"},
		"JobOfFew":            {"{apiVersion: batch/v1, kind: Job, metadata: {namespace: shop}, spec: {parallelism: 4, completions: 2, template: " + pod + "}}", "shop/ x2 own=none"},
		"JobOfMany":           {"{apiVersion: batch/v1, kind: Job, metadata: {namespace: shop}, spec: {completions: 10, template: " + pod + "}}", "shop/ x1 own=none"},
		"CronJob":             {"{apiVersion: batch/v1, kind: CronJob, metadata: {namespace: shop}, spec: {jobTemplate: {spec: {parallelism: 2, template: " + pod + "}}}}", "shop/ x2 own=none"},
		"SelectsEverything":   {"{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop}, spec: {selector: {matchLabels: {}}, template: " + pod + "}}", "shop/ x1 own=none"},
		"Declared":            {"{apiVersion: example.com/v1, kind: Rollout, metadata: {namespace: shop}, spec: {replicas: 2, " + selector + ", template: " + pod + "}}", "shop/ x2 own=app=web,tier"},
		"DeclaredMapSelector": {"{apiVersion: example.com/v1, kind: Rollout, metadata: {namespace: shop}, spec: {selector: {app: web}, template: " + pod + "}}", "shop/ x1 own=app=web"},
		"DeclaredDeep":        {"{apiVersion: example.com/v1, kind: Training, metadata: {namespace: shop}, spec: {worker: {pod: " + pod + "}}}", "shop/ x1 own=none"},
		"DeclaredTextual":     {"{apiVersion: example.com/v1, kind: Training, metadata: {namespace: shop}, spec: {selector: app=web, worker: {pod: " + pod + "}}}", "shop/ x1 own=none"},
		"DeclaredOdd":         {"{apiVersion: example.com/v1, kind: Training, metadata: {namespace: shop}, spec: {selector: {matchLabels: 1}, worker: {pod: " + pod + "}}}", "shop/ x1 own=none"},
		"DeclaredNested":      {"{apiVersion: example.com/v1, kind: Training, metadata: {namespace: shop}, spec: {selector: {pods: {a: b}}, worker: {pod: " + pod + "}}}", "shop/ x1 own=none"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := tc.want
			if !strings.Contains(want, "labels=") {
				want += rest
			}
			input := object(t, tc.text)
			got, err := templates(t).Of(input)
			if err != nil || summary(got) != want {
				t.Fatalf("%v, %v, want %s", summary(got), err, want)
			}
			if diff := cmp.Diff(object(t, tc.text), input); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
			// Convert the numbers to json.Number, which Rego values have.
			text, err := json.Marshal(input)
			if err != nil {
				t.Fatal(err)
			}
			decoder := json.NewDecoder(strings.NewReader(string(text)))
			decoder.UseNumber()
			var numbers map[string]any
			if err := decoder.Decode(&numbers); err != nil {
				t.Fatal(err)
			}
			again, err := templates(t).Of(numbers)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Pod, again.Pod); diff != "" || summary(got) != summary(again) {
				t.Errorf("with other numbers: %s", diff)
			}
			// Fields that are not in Fields have no effect.
			if cut, err := templates(t).Of(workload.Fields().Project(input)); err != nil || !cmp.Equal(got.Pod, cut.Pod) || summary(got) != summary(cut) {
				t.Errorf("cut: %v", err)
			}
		})
	}
}

func TestOfSaysWhatIsWrong(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"Unknown":        {"{apiVersion: example.com/v1, kind: Gadget, spec: {}}", "Gadget.example.com has no pod template that is known: declare it in the manager's configuration, under podTemplates"},
		"UnknownCore":    {"{apiVersion: v1, kind: Service, spec: {}}", "Service has no pod template that is known: declare it in the manager's configuration, under podTemplates"},
		"Nothing":        {"{}", "spec is missing"},
		"Version":        {"{apiVersion: a/b/c, kind: Pod}", "apiVersion: unexpected GroupVersion string: a/b/c"},
		"OddKind":        {"{apiVersion: v1, kind: {}}", "kind is not a string"},
		"NoTemplate":     {"{apiVersion: apps/v1, kind: Deployment, spec: {}}", "spec.template is missing"},
		"NullTemplate":   {"{apiVersion: apps/v1, kind: Deployment, spec: {template: null}}", "spec.template is missing"},
		"OddTemplate":    {"{apiVersion: apps/v1, kind: Deployment, spec: {template: [a]}}", "spec.template is not an object"},
		"NoSpec":         {"{apiVersion: apps/v1, kind: Deployment, spec: {template: {}}}", "spec.template.spec is missing"},
		"OddMetadata":    {"{apiVersion: apps/v1, kind: Deployment, spec: {template: {metadata: a}}}", "spec.template.metadata is not an object"},
		"OddLabels":      {"{apiVersion: apps/v1, kind: Deployment, spec: {template: {metadata: {labels: []}}}}", "spec.template.metadata.labels is not an object"},
		"OddLabel":       {"{apiVersion: apps/v1, kind: Deployment, spec: {template: {metadata: {labels: {a: 1}}}}}", "spec.template.metadata.labels is not a map of strings"},
		"OddNamespace":   {"{metadata: {namespace: 1}, spec: {}}", "metadata.namespace is not a string"},
		"OddReplicas":    {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: many, template: {spec: {}}}}", "spec.replicas is not a number of pods"},
		"BrokenReplicas": {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1.5, template: {spec: {}}}}", "spec.replicas is not a number of pods"},
		"FewReplicas":    {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: -1, template: {spec: {}}}}", "spec.replicas is not a number of pods"},
		"Huge":           {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1e300, template: {spec: {}}}}", "spec.replicas is not a number of pods"},
		"OddSelector":    {"{apiVersion: apps/v1, kind: Deployment, spec: {selector: {matchExpressions: [{key: a, operator: Near}]}, template: {spec: {}}}}", `spec.selector: "Near" is not a valid label selector operator`},
		"OddMapSelector": {"{apiVersion: v1, kind: ReplicationController, spec: {selector: {a: {}}, template: {spec: {}}}}", "spec.selector is not a map of strings"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := templates(t).Of(object(t, tc.text)); err == nil || err.Error() != tc.want {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
	if _, err := templates(t).Of(object(t, "{spec: {containers: {}}}")); err == nil || !strings.HasPrefix(err.Error(), "spec: ") {
		t.Errorf("error %v", err)
	}
	if _, err := (*workload.Templates)(nil).Of(nil); err == nil {
		t.Error("nothing is a workload")
	}
}

func TestPath(t *testing.T) {
	tests := map[string]string{
		"pods": "spec", "replicationcontrollers": "spec.template.spec", "podtemplates": "template.spec",
		"deployments.apps": "spec.template.spec", "statefulsets.apps": "spec.template.spec", "daemonsets.apps": "spec.template.spec",
		"replicasets.apps": "spec.template.spec", "jobs.batch": "spec.template.spec", "cronjobs.batch": "spec.jobTemplate.spec.template.spec",
		"rollouts.example.com": "spec.template.spec", "trainings.example.com": "spec.worker.pod.spec", "services": "", "deployments.example.com": "",
	}
	for resource, want := range tests {
		path, ok := templates(t).Path(schema.ParseGroupResource(resource))
		if got := strings.Join(path, "."); got != want || ok != (want != "") {
			t.Errorf("%s has its pods at %q, want %q", resource, got, want)
		}
	}
	if _, ok := (*workload.Templates)(nil).Path(schema.ParseGroupResource("rollouts.example.com")); ok {
		t.Error("a kind is known that nobody declared")
	}
}

func TestWorkloads(t *testing.T) {
	declared, err := workload.NewTemplates(workload.Template{
		GroupResource: schema.GroupResource{Group: "argoproj.io", Resource: "rollouts"}, Kind: "Rollout", Path: []string{"spec", "template"},
	})
	if err != nil {
		t.Fatal(err)
	}
	names := func(t *workload.Templates) (out []string) {
		for _, r := range t.Workloads() {
			out = append(out, r.String())
		}
		return out
	}
	builtin := []string{"cronjobs.batch", "daemonsets.apps", "deployments.apps", "jobs.batch", "replicasets.apps", "replicationcontrollers", "statefulsets.apps"}
	if diff := cmp.Diff(builtin, names(nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(slices.Insert(slices.Clone(builtin), 6, "rollouts.argoproj.io"), names(declared)); diff != "" {
		t.Error(diff)
	}
}

func TestDeclarations(t *testing.T) {
	template := func(resource, kind string, path ...string) workload.Template {
		return workload.Template{GroupResource: schema.ParseGroupResource(resource), Kind: kind, Path: path}
	}
	tests := map[string]struct {
		declared []workload.Template
		want     []string
	}{
		"Good":         {[]workload.Template{template("a.example.com", "A", "spec", "template"), template("b.example.com", "B", "spec", "a", "b")}, nil},
		"NoPath":       {[]workload.Template{template("a.example.com", "A")}, []string{"podTemplates[0].path: Required"}},
		"ElsewherePat": {[]workload.Template{template("a.example.com", "A", "status", "template")}, []string{"podTemplates[0].path: Invalid value: \"status.template\": must lead to a template below spec"}},
		"SpecItself":   {[]workload.Template{template("a.example.com", "A", "spec")}, []string{"podTemplates[0].path: Invalid"}},
		"EmptyPart":    {[]workload.Template{template("a.example.com", "A", "spec", "")}, []string{"podTemplates[0].path: Invalid"}},
		"NoNames":      {[]workload.Template{template("", "", "spec", "a")}, []string{"podTemplates[0].resource: Required", "podTemplates[0].kind: Required"}},
		"Subresource":  {[]workload.Template{template("a/status", "A", "spec", "a")}, []string{"podTemplates[0].resource: Invalid"}},
		"Group":        {[]workload.Template{template("a.Example_com", "A", "spec", "a")}, []string{"podTemplates[0].group: Invalid"}},
		"Builtin":      {[]workload.Template{template("deployments.apps", "Deployment", "spec", "a")}, []string{"podTemplates[0].resource: Duplicate value: \"deployments.apps\"", "podTemplates[0].kind: Duplicate value: \"Deployment.apps\""}},
		"Twice":        {[]workload.Template{template("a.example.com", "A", "spec", "a"), template("a.example.com", "A", "spec", "b")}, []string{"podTemplates[1].resource: Duplicate", "podTemplates[1].kind: Duplicate"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := workload.NewTemplates(tc.declared...)
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %s", err, want)
				}
			}
		})
	}
}

func FuzzOf(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"spec":{"containers":[{"resources":{"requests":{"cpu":"x"}}}]}}`, `{"spec":{"tolerations":[null,1]}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1e400,"selector":{"matchLabels":[]},"template":{"metadata":{"labels":null},"spec":{"overhead":{"cpu":1}}}}}`,
		`{"apiVersion":"v1","kind":"Pod","spec":{"terminationGracePeriodSeconds":1.5,"affinity":{"nodeAffinity":[]}}}`,
		`{"apiVersion":"example.com/v1","kind":"Rollout","spec":{"selector":{"matchExpressions":[{}]},"template":{"spec":{"volumes":[{"emptyDir":{"sizeLimit":{}}}]}}}}`,
		`{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":1e99}}}],"activeDeadlineSeconds":9e99}}`,
	} {
		f.Add(seed)
	}
	known := templates(f)
	f.Fuzz(func(t *testing.T, text string) {
		for _, exact := range []bool{false, true} {
			decoder := json.NewDecoder(strings.NewReader(text))
			if exact {
				decoder.UseNumber()
			}
			var object map[string]any
			if decoder.Decode(&object) != nil {
				return
			}
			w, err := known.Of(object)
			if err == nil && (w.Pod == nil || w.Pod.Namespace == "" || w.Replicas < 1) {
				t.Errorf("workload %+v", w)
			}
		}
	})
}

// TestOfDefaults checks the defaults that the API server sets in pods and not in templates.
func TestOfDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"Deployment": `{apiVersion: apps/v1, kind: Deployment, spec: {template: %s}}`,
		"Bare":       `%s`,
		"Declared":   `{apiVersion: example.com/v1, kind: Rollout, spec: {template: %s}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w, err := templates(t).Of(object(t, fmt.Sprintf(text, `{spec: {hostNetwork: true, containers: [{name: a,
				ports: [{containerPort: 80}], resources: {limits: {cpu: 2, memory: 1Gi}, requests: {memory: 1Mi}}}]}}`)))
			if err != nil {
				t.Fatal(err)
			}
			container := w.Pod.Spec.Containers[0]
			requests := container.Resources.Requests
			got := fmt.Sprint(requests.Cpu(), " ", requests.Memory(), " ", container.Ports[0].HostPort)
			if want := "2 1Mi 80"; got != want {
				t.Errorf("cpu, memory and port of the node are %s, want %s", got, want)
			}
		})
	}
}

func TestPodsHaveNoNameYet(t *testing.T) {
	w, err := templates(t).Of(object(t, `{apiVersion: v1, kind: Pod, metadata: {generateName: web-}, spec: {}}`))
	if err != nil || !w.Single || w.Name != "" {
		t.Errorf("%+v, %v", w, err)
	}
}
