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

package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
)

var (
	karmadaCluster = schema.GroupVersionKind{Group: "cluster.karmada.io", Version: "v1alpha1", Kind: "Cluster"}
	node           = schema.GroupVersionKind{Version: "v1", Kind: "Node"}
)

// tried is a change in the playground: a text, and the fields and deletions of the form.
type tried struct {
	Manifests string   `json:"manifests"`
	Set       []string `json:"set"`
	Delete    []string `json:"delete"`
	// Limit is the number of objects in the answer.
	Limit int `json:"limit"`
}

// applied carries out changes by the commands that the console shows, and compares what happens with what it predicted.
type applied struct {
	console   *consoleClient
	namespace string
	// transitions count what happened.
	transitions map[whatif.Transition]int
}

// placed is what policies make of an object: its labels and annotations, and whether they deny an update that changes nothing.
type placed struct {
	Values map[string]string
	Denied bool
}

// state returns what policies make of the objects, by name.
func (w *applied) state(ctx context.Context) (map[string]placed, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(framework.Deployment)
	if err := f.Client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
		return nil, err
	}
	out := map[string]placed{}
	for i := range list.Items {
		obj := &list.Items[i]
		values := valuesOf(obj)
		err := f.Client.Update(ctx, obj, client.DryRunAll)
		denied := err != nil && strings.Contains(err.Error(), "denied the request")
		if err != nil && !denied {
			return nil, err
		}
		out[obj.GetName()] = placed{values, denied}
	}
	return out, nil
}

// settled returns the state when remediation has nothing left to do.
func (w *applied) settled(ctx context.Context) (map[string]placed, error) {
	violations, err := whatif.Violations(ctx, simulate(ctx), "")
	if err != nil {
		return nil, err
	}
	state, err := w.state(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range violations {
		// A denied object keeps its values.
		if v.Namespace == w.namespace && !state[v.Name].Denied {
			return nil, fmt.Errorf("%s still differs: %v", v.Name, v.Messages)
		}
	}
	return state, nil
}

// ask returns the answer of the console to a change, after a new reading.
func (w *applied) ask(ctx context.Context, change tried) (report *whatif.Report, commands []string) {
	GinkgoHelper()
	status, text := w.console.request(ctx, http.MethodPost, "refresh", "{}")
	Expect(status).To(Equal(http.StatusOK), text)
	change.Limit = 1000
	body, err := json.Marshal(change)
	Expect(err).NotTo(HaveOccurred())
	status, text = w.console.request(ctx, http.MethodPost, "whatif", string(body))
	Expect(status).To(Equal(http.StatusOK), text)
	var got struct {
		Mistakes []struct {
			Error   bool
			Message string
		}
		Report   *whatif.Report
		Total    int
		Commands []string
	}
	Expect(json.Unmarshal([]byte(text), &got)).To(Succeed())
	Expect(got.Mistakes).NotTo(ContainElement(HaveField("Error", true)))
	Expect(got.Report.Objects).To(HaveLen(got.Total))
	return got.Report, got.Commands
}

// label matches a change of a label of a Deployment.
var label = regexp.MustCompile(`^deployments/[^/]+/([^:]+):metadata\.labels\.(\w+)=(\w+)$`)

// predicted returns the state that follows from another one by a change and its report, and whether a request that makes the change is
// denied, after which nothing happens to its object.
func (w *applied) predicted(before map[string]placed, change tried, report *whatif.Report) (out map[string]placed, denied bool) {
	out = map[string]placed{}
	for name, p := range before {
		out[name] = placed{maps.Clone(p.Values), p.Denied}
	}
	requested := ""
	for _, text := range change.Set {
		if found := label.FindStringSubmatch(text); found != nil {
			requested = found[1]
			denied = slices.ContainsFunc(report.Objects, func(o whatif.Object) bool { return o.Name == requested && o.Transition == whatif.Denied })
			if !denied {
				out[requested].Values["labels "+found[2]] = found[3]
			}
		}
	}
	for _, o := range report.Objects {
		if o.Namespace != w.namespace || o.Kind != framework.Deployment.Kind {
			continue
		}
		w.transitions[o.Transition]++
		if denied && o.Name == requested {
			continue
		}
		p := out[o.Name]
		switch o.Transition {
		case whatif.Denied:
			p.Denied = true
		case whatif.Allowed:
			p.Denied = false
		}
		for _, v := range o.Values {
			switch {
			case v.Pending:
			case v.To == nil:
				delete(p.Values, v.Field+" "+v.Key)
			default:
				p.Values[v.Field+" "+v.Key] = *v.To
			}
		}
		out[o.Name] = p
	}
	return out, denied
}

// carryOut asks the console what a change would do, makes it by the commands that the console shows, and compares object by object. It
// returns the report.
func (w *applied) carryOut(ctx context.Context, change tried) *whatif.Report {
	GinkgoHelper()
	var before map[string]placed
	Eventually(func(ctx context.Context) (err error) {
		before, err = w.settled(ctx)
		return err
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
	report, commands := w.ask(ctx, change)
	want, denied := w.predicted(before, change, report)
	Expect(len(commands)).To(BeNumerically(">", 1))
	dir := GinkgoT().TempDir()
	Expect(os.WriteFile(filepath.Join(dir, "changes.yaml"), []byte(change.Manifests), 0o600)).To(Succeed())
	description := func() string {
		return fmt.Sprintf("change %+v\ncommands %q\n%s", change, commands, describe(nil, whatif.Changes{}, report))
	}
	// The first command predicts the same.
	for _, command := range commands[1:] {
		out, err := f.Shell(ctx, "cd "+dir+" && "+command)
		if denied && strings.Contains(command, " deployments.apps ") {
			Expect(out).To(ContainSubstring("denied the request"), command)
			continue
		}
		Expect(err).NotTo(HaveOccurred(), "%s: %s", command, out)
	}
	Eventually(func(g Gomega, ctx context.Context) {
		got, err := w.settled(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(cmp.Diff(want, got)).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed(), description)
	// A new reading has nothing left that would happen by the same change.
	Eventually(func(g Gomega, ctx context.Context) {
		for _, p := range w.policies(ctx) {
			g.Expect(f.Condition(ctx, p, placementv1.ConditionReady)).To(framework.BeCondition("True", placementv1.ReasonInForce), p)
		}
	}).WithContext(ctx).Should(Succeed())
	got, err := w.settled(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(cmp.Diff(want, got)).To(BeEmpty(), description)
	return report
}

// policies returns the names of all policies.
func (w *applied) policies(ctx context.Context) []string {
	GinkgoHelper()
	var list placementv1.PlacementPolicyList
	Expect(f.Client.List(ctx, &list)).To(Succeed())
	var out []string
	for _, p := range list.Items {
		out = append(out, p.Name)
	}
	return out
}

// manifest returns the text of a policy in the editor of the playground.
func (w *applied) manifest(ctx context.Context, policy string) string {
	GinkgoHelper()
	w.console.request(ctx, http.MethodPost, "refresh", "{}")
	status, text := w.console.request(ctx, http.MethodGet, "policy?name="+policy, "")
	Expect(status).To(Equal(http.StatusOK), text)
	var got struct{ Manifest string }
	Expect(json.Unmarshal([]byte(text), &got)).To(Succeed())
	return got.Manifest
}

// edited returns the text of a policy after a part was replaced, which it has to have.
func (w *applied) edited(ctx context.Context, policy, before, after string) tried {
	GinkgoHelper()
	text := w.manifest(ctx, policy)
	Expect(text).To(ContainSubstring(before))
	return tried{Manifests: strings.Replace(text, before, after, 1)}
}

// regionsPolicy is a policy by rules, which also labels the objects.
const regionsPolicy = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: regions}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  remediation: {blastRadius: {percent: 100}}
  rules:
  - name: eu
    when: {objectSelector: {matchLabels: {region: a}}}
    require: [{label: region, operator: In, values: [eu]}]
  - name: others
    require: [{label: region, operator: In, values: [us]}]
`

// lastRule matches the last rule of regionsPolicy in the text of the editor.
var lastRule = regexp.MustCompile(`(?m)^  - name: others\n(?:    .*\n)*`)

// nodesPolicy is a policy in Rego that reads nodes.
const nodesPolicy = `package nodes

annotations["example.com/nodes"] := concat(",", sort([name | some name, node in data.kubernetes.nodes; not node.spec.unschedulable]))
`

// fullPolicy is a policy in Rego that reads a quota.
const fullPolicy = `package full

quota := data.berth.quotas[%q].main

annotations["example.com/hard"] := quota.hard["count/configmaps"]

errors contains "the namespace is full" if {
  input.metadata.labels.tier == "a"
  to_number(quota.used["count/configmaps"]) >= to_number(quota.hard["count/configmaps"])
}
`

// createCluster creates a cluster of a region.
func (w *applied) createCluster(ctx context.Context, name, region string) {
	GinkgoHelper()
	obj := framework.NewObject(karmadaCluster, "", name, nil)
	obj.SetLabels(map[string]string{"region": region})
	obj.Object["spec"] = map[string]any{"region": region}
	Expect(f.Client.Create(ctx, obj)).To(Succeed())
}

// newApplied makes clusters, nodes, a quota, workloads, and policies that were written in each way, and opens a console.
func newApplied(ctx context.Context) *applied {
	GinkgoHelper()
	f.InstallCRD(ctx, framework.NewCRD(karmadaCluster.Group, karmadaCluster.Version, "clusters", "Cluster", apiextensionsv1.ClusterScoped))
	DeferCleanup(func(ctx SpecContext) { f.UninstallCRD(ctx, "clusters.cluster.karmada.io") })
	w := &applied{namespace: f.NewNamespace(ctx, nil), transitions: map[whatif.Transition]int{}}
	for _, name := range []string{"eu-1", "eu-2", "us-1", "us-2"} {
		w.createCluster(ctx, name, name[:2])
	}
	for _, name := range []string{"node-a", "node-b"} {
		obj := framework.NewObject(node, "", name, nil)
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, obj))).To(Succeed()) })
	}
	f.CreateReadyQuota(ctx, framework.NewScopedQuota(w.namespace, "main", placementv1.QuotaSpec{Hard: framework.Hard("count/configmaps", "5")}))
	Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, w.namespace, "counted", nil))).To(Succeed())
	for i := range 9 {
		obj := framework.NewObject(framework.Deployment, w.namespace, fmt.Sprintf("web-%d", i), nil)
		obj.SetLabels(map[string]string{"region": string("abc"[i%3]), "tier": string("abc"[i/3])})
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
	}
	// One policy is written by kubectl apply, one by another program, and one by kubectl apply --server-side.
	DeferCleanup(func(ctx SpecContext) {
		for _, name := range []string{"regions", "nodes", "full", "extra"} {
			f.DeletePolicy(ctx, name)
		}
	})
	f.MustKubectl(ctx, strings.Replace(regionsPolicy, "NAMESPACE", w.namespace, 1), "apply", "-f", "-")
	automatic := placementv1.Remediation{Mode: placementv1.RemediationAutomatic, BlastRadius: &placementv1.BlastRadius{Percent: 100}}
	nodes := framework.NewPolicy("nodes", nodesPolicy, "apps", "deployments", w.namespace)
	nodes.Spec.Remediation, nodes.Spec.Priority = automatic, 3
	Expect(f.Client.Create(ctx, nodes)).To(Succeed())
	full := framework.NewPolicy("full", fmt.Sprintf(fullPolicy, w.namespace), "apps", "deployments", w.namespace)
	full.Spec.Remediation = automatic
	f.MustKubectl(ctx, "", "apply", "--server-side", "-f", writeManifest(full))
	for _, name := range []string{"regions", "nodes", "full"} {
		f.AwaitReady(ctx, name)
	}
	w.console = openConsole(ctx, "")
	return w
}

// random returns a random change.
func (w *applied) random(ctx context.Context, r *rand.Rand) tried {
	GinkgoHelper()
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	region := pick("eu", "us", "asia")
	switch r.IntN(9) {
	case 0:
		return tried{Set: []string{fmt.Sprintf("clusters.cluster.karmada.io/%s:metadata.labels.region=%s", pick("eu-1", "us-1"), region)}}
	case 1:
		return tried{Set: []string{fmt.Sprintf("nodes/%s:spec.unschedulable=%v", pick("node-a", "node-b"), r.IntN(2) == 0)}}
	case 2:
		return tried{Set: []string{fmt.Sprintf("scopedquotas/%s/main:spec.hard={count/configmaps: '%d'}", w.namespace, r.IntN(4))}}
	case 3:
		return tried{Set: []string{fmt.Sprintf("deployments/%s/web-%d:metadata.labels.region=%s", w.namespace, r.IntN(9), pick("a", "b"))}}
	case 4, 5:
		text := strings.Replace(strings.Replace(regionsPolicy, "NAMESPACE", w.namespace, 1), "values: [us]", "values: ["+region+"]", 1)
		return tried{Manifests: strings.Replace(text, "region: a", "region: "+pick("a", "b", "c"), 1)}
	case 6, 7:
		return tried{Manifests: strings.Replace(w.manifest(ctx, "nodes"), "example.com/nodes", "example.com/"+pick("nodes", "machines"), 1)}
	}
	taints := "[{key: example.com/full, effect: " + pick("NoSchedule", "PreferNoSchedule") + "}]"
	return tried{Set: []string{fmt.Sprintf("clusters.cluster.karmada.io/%s:spec.taints=%s", pick("eu-2", "us-2"), taints)}}
}

var _ = Describe("The playground of the console", func() {
	It("predicts what the commands that it shows then do", func(ctx SpecContext) {
		w := newApplied(ctx)
		clusters := "clusters.cluster.karmada.io/"
		moved := func(report *whatif.Report) int { return report.Totals[whatif.Moved] }

		By("editing a rule of a policy that kubectl apply wrote")
		Expect(moved(w.carryOut(ctx, w.edited(ctx, "regions", "- us", "- eu")))).To(Equal(6))
		By("removing a rule")
		text := w.manifest(ctx, "regions")
		Expect(moved(w.carryOut(ctx, tried{Manifests: lastRule.ReplaceAllString(text, "")}))).To(Equal(6))
		By("adding the rule again")
		Expect(moved(w.carryOut(ctx, tried{Manifests: strings.Replace(regionsPolicy, "NAMESPACE", w.namespace, 1)}))).To(Equal(6))
		By("removing a field of a policy that another program wrote")
		w.carryOut(ctx, tried{Manifests: strings.Replace(strings.Replace(w.manifest(ctx, "nodes"), "  priority: 3\n", "", 1), "example.com/nodes", "example.com/machines", 1)})
		p, err := f.Policy(ctx, "nodes")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Spec.Priority).To(BeZero())
		By("creating a policy")
		extra := `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: extra}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + w.namespace + `}}
  remediation: {blastRadius: {percent: 100}}
  rego: |
    package extra

    labels.extra := "yes"

    errors contains "not here" if input.metadata.labels.tier == "c"
`
		Expect(w.carryOut(ctx, tried{Manifests: extra}).Totals).To(And(HaveKeyWithValue(whatif.Denied, 3), HaveKeyWithValue(whatif.Changed, 6)))
		By("matching less")
		Expect(w.carryOut(ctx, tried{Manifests: strings.Replace(extra, "    namespaceSelector:", "    objectSelector: {matchLabels: {region: b}}\n    namespaceSelector:", 1)}).Totals).
			To(HaveKeyWithValue(whatif.Allowed, 2))
		By("deleting the policy")
		Expect(w.carryOut(ctx, tried{Delete: []string{"placementpolicies/extra"}}).Totals).To(HaveKeyWithValue(whatif.Allowed, 1))
		By("changing a label of a cluster")
		Expect(moved(w.carryOut(ctx, tried{Set: []string{clusters + "eu-2:metadata.labels.region=us"}}))).To(Equal(9))
		By("tainting a cluster")
		Expect(moved(w.carryOut(ctx, tried{Set: []string{clusters + "us-1:spec.taints=[{key: example.com/full, effect: NoSchedule}]"}}))).To(Equal(6))
		By("removing a cluster")
		Expect(moved(w.carryOut(ctx, tried{Delete: []string{clusters + "us-2"}}))).To(Equal(6))
		By("cordoning a node, and removing the other one")
		Expect(w.carryOut(ctx, tried{Set: []string{"nodes/node-a:spec.unschedulable=true"}}).Totals).To(HaveKeyWithValue(whatif.Changed, 9))
		Expect(w.carryOut(ctx, tried{Delete: []string{"nodes/node-b"}}).Totals).To(HaveKeyWithValue(whatif.Changed, 9))
		By("lowering a quota, by its fields and as a manifest, and raising it")
		quota := "scopedquotas/" + w.namespace + "/main:spec.hard="
		Expect(w.carryOut(ctx, tried{Set: []string{quota + "{count/configmaps: '1', count/secrets: '7'}"}}).Totals).To(HaveKeyWithValue(whatif.Denied, 3))
		manifest := fmt.Sprintf("apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: main, namespace: %s}\nspec: {hard: {count/configmaps: \"9\"}}\n", w.namespace)
		Expect(w.carryOut(ctx, tried{Manifests: manifest}).Totals).To(HaveKeyWithValue(whatif.Allowed, 3))
		Expect(f.MustKubectl(ctx, "", "get", "scopedquota", "main", "-n", w.namespace, "-o", "jsonpath={.spec.hard}")).NotTo(ContainSubstring("secrets"))
		By("limiting a resource")
		limited := "apiVersion: placement.berth.dev/v1alpha1\nkind: LimitedResource\nmetadata: {name: applied}\n" +
			"spec: {resource: secrets, matchContains: [count/secrets], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: " + w.namespace + "}}}\n"
		DeferCleanup(func(ctx SpecContext) {
			f.MustKubectl(ctx, "", "delete", "limitedresource", "applied", "--ignore-not-found")
		})
		report := w.carryOut(ctx, tried{Manifests: limited})
		Expect(report.Objects).To(BeEmpty())
		Expect(report.Findings).To(ContainElement(HaveField("Message", ContainSubstring("this report does not"))))
		By("changing several things at once")
		w.carryOut(ctx, tried{
			Manifests: strings.Replace(strings.Replace(regionsPolicy, "NAMESPACE", w.namespace, 1), "region: a", "region: b", 1),
			Set:       []string{clusters + "us-1:metadata.labels.region=eu", "deployments/" + w.namespace + "/web-0:metadata.labels.region=b"}, Delete: []string{"nodes/node-a"},
		})
		AddReportEntry("transitions", fmt.Sprint(w.transitions))
	}, SpecTimeout(25*time.Minute))

	It("predicts what random changes then do", func(ctx SpecContext) {
		w, r := newApplied(ctx), rand.New(rand.NewPCG(45, uint64(GinkgoRandomSeed())))
		var changes []string
		for range budget.Rounds(3) {
			change := w.random(ctx, r)
			changes = append(changes, fmt.Sprintf("%+v", change))
			w.carryOut(ctx, change)
		}
		AddReportEntry("changes", strings.Join(slices.Clip(changes), "\n"))
		AddReportEntry("transitions", fmt.Sprint(w.transitions))
	}, SpecTimeout(2*time.Hour))
})
