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

package bundle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/documents"
	"github.com/berth-dev/berth/test/framework"
)

// The specs go on from one another: what the operator may do shows by what it has done.
var _ = Describe("The manager with the rights of the CSV and no others", Ordered, func() {
	const own, shared, other = "with-quota", "payments-a", "without-quota"
	var m *replica

	BeforeAll(func(ctx SpecContext) {
		kubectl(ctx, "", "create", "--filename", "hack/demo/clusterprofile-crd.yaml")
		for _, state := range controlplane.DefinitionStates {
			kubectl(ctx, "", "wait", "--for="+state, "--timeout=60s", "--filename", "hack/demo/clusterprofile-crd.yaml")
		}
		newNamespace(ctx, own, nil)
		newNamespace(ctx, shared, map[string]string{"team": "payments"})
		newNamespace(ctx, other, nil)
		newNamespace(ctx, "fleet", nil)
		Expect(admin.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "cluster-services"}, Value: 1})).To(Succeed())
		createCluster(ctx, "eu1")
		m = start(ctx, "")
		DeferCleanup(m.stop)
	})

	It("brings every example into force", func(ctx SpecContext) {
		examples, err := installed.examples()
		Expect(err).NotTo(HaveOccurred())
		for _, e := range examples {
			for _, how := range []string{"--dry-run=server", "--dry-run=none"} {
				kubectl(ctx, manifest(e), "create", how, "--validate=strict", "--namespace", own, "--filename", "-")
			}
		}
		for _, e := range examples {
			e.SetNamespace(own)
			awaitReady(ctx, e, m)
		}
	})

	It("places workloads, and moves them when their data changes", func(ctx SpecContext) {
		d := framework.NewObject(framework.Deployment, other, "app", map[string]string{
			"policy.example.com/eu-jurisdiction-required": "true", "policy.example.com/pci-compliance-level": "2",
		})
		Expect(admin.Create(ctx, d)).To(Succeed())
		Expect(clustersOf(d)).To(ConsistOf("eu1"))
		createCluster(ctx, "eu2")
		Eventually(func(ctx context.Context) ([]string, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(d), d)
			return clustersOf(d), err
		}).WithContext(ctx).Should(ConsistOf("eu1", "eu2"), m.refused.String)
	})

	It("charges quotas, and denies what none covers", func(ctx SpecContext) {
		important := func(p *corev1.Pod) { p.Spec.PriorityClassName = "cluster-services" }
		Eventually(func(ctx context.Context) error {
			return admin.Create(ctx, framework.NewPod(other, "", important), client.DryRunAll)
		}).WithContext(ctx).Should(framework.BeForbidden("insufficient quota to match these scopes"))
		Expect(admin.Create(ctx, framework.NewPod(own, "a", important))).To(Succeed())
		Eventually(used).WithContext(ctx).WithArguments("ScopedQuota", own, "pods-cluster-services").Should(HaveKeyWithValue("pods", "1"))
		Expect(admin.Create(ctx, framework.NewPod(shared, "b", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = framework.Hard("cpu", "1", "memory", "1Gi", "nvidia.com/gpu", "1")
			p.Spec.Containers[0].Resources.Limits = framework.Hard("nvidia.com/gpu", "1")
		}))).To(Succeed())
		Eventually(used).WithContext(ctx).WithArguments("ClusterScopedQuota", "", "payments").Should(HaveKeyWithValue("requests.cpu", "1"))
	})

	It("keeps what it keeps in its own namespace, and says what it did", func(ctx SpecContext) {
		within := client.InNamespace(installNamespace)
		Eventually(func(g Gomega, ctx context.Context) {
			revisions, secrets, leases, events := &appsv1.ControllerRevisionList{}, &corev1.SecretList{}, &coordinationv1.LeaseList{}, &eventsv1.EventList{}
			for _, list := range []client.ObjectList{revisions, secrets, leases} {
				g.Expect(admin.List(ctx, list, within)).To(Succeed())
			}
			g.Expect(admin.List(ctx, events)).To(Succeed())
			g.Expect(revisions.Items).NotTo(BeEmpty())
			g.Expect(secrets.Items).To(ContainElements(HaveField("Name", "berth-webhook-cert"), HaveField("Name", "berth-webhook-token"), HaveField("Name", "berth-intent-key")))
			g.Expect(leases.Items).To(ContainElement(HaveField("Name", "berth.placement.berth.dev")))
			g.Expect(events.Items).To(ContainElement(HaveField("Reason", "PlacementRemediated")))
		}).WithContext(ctx).Should(Succeed())
	})

	It("shows its metrics to those who are bound to the bundle's role, and to nobody else", func(ctx SpecContext) {
		Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: installNamespace, Name: "scraper"}})).To(Succeed())
		token := as(ctx, "scraper").BearerToken
		code, _, err := get(ctx, m.metrics, token)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(http.StatusForbidden))
		// Another, because an answer about a token is remembered for a while.
		Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: installNamespace, Name: "prometheus"}})).To(Succeed())
		kubectl(ctx, "", "create", "clusterrolebinding", "prometheus", "--clusterrole=berth-metrics-reader", "--serviceaccount="+installNamespace+":prometheus")
		code, text, err := get(ctx, m.metrics, as(ctx, "prometheus").BearerToken)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(http.StatusOK), text)
		Expect(text).To(ContainSubstring("berth_policies{"))
	})

	It("has been refused nothing", func() {
		Expect(m.refused.all()).To(BeEmpty())
	})

	// OLM aggregates the rights on all kinds of the CSV to edit and admin.
	It("lets no user write policies, quotas, or limits by edit or admin in the whole cluster", func(ctx SpecContext) {
		examples, err := installed.examples()
		Expect(err).NotTo(HaveOccurred())
		for _, role := range []string{"edit", "admin"} {
			user := role + "-of-all"
			kubectl(ctx, "", "create", "clusterrolebinding", user, "--clusterrole="+role, "--user="+user)
			for _, e := range examples {
				expectGuarded(ctx, asUser(user), e, own)
			}
		}
	})

	It("lets those write them whom an administrator binds to the bundle's roles", func(ctx SpecContext) {
		examples, err := installed.examples()
		Expect(err).NotTo(HaveOccurred())
		for _, e := range examples {
			kind := strings.ToLower(e.GetKind())
			kubectl(ctx, "", "create", "clusterrolebinding", "writes-"+kind, "--clusterrole=berth-"+kind+"-editor-role", "--user=writes-"+kind)
			c, stored := asUser("writes-"+kind), storedExample(ctx, e, own)
			Eventually(c.Patch).WithContext(ctx).WithArguments(stored.DeepCopy(), specPatches[e.GetKind()], client.DryRunAll).Should(Succeed(), kind)
			Expect(c.Create(ctx, renamed(stored), client.DryRunAll)).To(Succeed(), kind)
			Expect(c.Delete(ctx, stored, client.DryRunAll)).To(Succeed(), kind)
		}
	})

	It("lets an approver approve plans and stages, and change nothing else in a policy", func(ctx SpecContext) {
		const approver = "approves-policies"
		kubectl(ctx, "", "create", "clusterrolebinding", approver, "--clusterrole=berth-placementpolicy-approver-role", "--user="+approver)
		examples, err := installed.examples()
		Expect(err).NotTo(HaveOccurred())
		at := slices.IndexFunc(examples, func(e *unstructured.Unstructured) bool { return e.GetKind() == "PlacementPolicy" })
		c, stored := asUser(approver), storedExample(ctx, examples[at], own)
		patch := func(ctx context.Context, text string) error {
			return c.Patch(ctx, stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
		}
		for _, annotation := range []string{placementv1.ApproveAnnotation, placementv1.ApproveStageAnnotation} {
			Eventually(patch).WithContext(ctx).WithArguments(fmt.Sprintf(`{"metadata": {"annotations": {%q: "0123456789abcdef"}}}`, annotation)).Should(Succeed(), annotation)
		}
		for _, text := range []string{
			`{"metadata": {"labels": {"example.com/team": "shop"}}}`,
			`{"metadata": {"finalizers": ["example.com/keep"]}}`,
			fmt.Sprintf(`{"metadata": {"annotations": {%q: "0123456789abcdef"}}}`, placementv1.ResumeAfterFailuresAnnotation),
			`{"spec": {"mode": "DryRun"}}`,
		} {
			Expect(patch(ctx, text)).To(framework.BeForbidden("placementpolicies/spec"), text)
		}
		Expect(c.Delete(ctx, stored.DeepCopy(), client.DryRunAll)).To(framework.BeForbidden("cannot delete"))
	})

	It("does not keep the garbage collector from deleting a dependent", func(ctx SpecContext) {
		owner := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "owner-of-a-limit"}}
		Expect(admin.Create(ctx, owner)).To(Succeed())
		limit := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: "dependent", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: owner.Name, UID: owner.UID},
		}}, Spec: placementv1.LimitedResourceSpec{Resource: "services", MatchContains: []string{"services.loadbalancers"}}}
		Expect(admin.Create(ctx, limit)).To(Succeed())
		Expect(admin.Delete(ctx, owner)).To(Succeed())
		Eventually(func(ctx context.Context) error {
			return admin.Get(ctx, client.ObjectKeyFromObject(limit), &placementv1.LimitedResource{})
		}).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})

	// So a user who may edit a namespace may write ScopedQuotas in it.
	It("lets only those write a quota who may write ResourceQuotas", func(ctx SpecContext) {
		kubectl(ctx, "", "create", "rolebinding", "edit", "--namespace", own, "--clusterrole=edit", "--user="+editor)
		Eventually(raiseQuota).WithContext(ctx).WithArguments(own).Should(framework.BeForbidden("update resourcequotas"))
		c := asUser(editor)
		quota := &unstructured.Unstructured{}
		quota.SetAPIVersion("placement.berth.dev/v1alpha1")
		quota.SetKind("ScopedQuota")
		quota.SetNamespace(own)
		quota.SetName("pods-cluster-services")
		Expect(c.Delete(ctx, quota)).To(framework.BeForbidden("update resourcequotas"))
		second := quota.DeepCopy()
		second.SetName("second")
		Expect(unstructured.SetNestedStringMap(second.Object, map[string]string{"pods": "100"}, "spec", "hard")).To(Succeed())
		Expect(c.Create(ctx, second)).To(framework.BeForbidden("update resourcequotas"))
		By("labeling it")
		Expect(c.Patch(ctx, quota, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"example.com/team": "shop"}}}`)))).To(Succeed())
		By("making it a dependent, which the garbage collector would delete")
		owner := framework.NewObject(framework.ConfigMap, own, "owner", nil)
		Expect(c.Create(ctx, owner)).To(Succeed())
		references := fmt.Sprintf(`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": %q}]}}`, owner.GetUID())
		Expect(c.Patch(ctx, quota, client.RawPatch(types.MergePatchType, []byte(references)))).To(framework.BeForbidden("update resourcequotas"))
		By("being granted the right for a while")
		kubectl(ctx, "", "create", "role", "quotas", "--namespace", own, "--verb=update", "--resource=resourcequotas")
		kubectl(ctx, "", "create", "rolebinding", "quotas", "--namespace", own, "--role=quotas", "--user="+editor)
		Eventually(raiseQuota).WithContext(ctx).WithArguments(own).Should(Succeed())
		kubectl(ctx, "", "delete", "rolebinding", "quotas", "--namespace", own)
		Eventually(raiseQuota).WithContext(ctx).WithArguments(own).Should(framework.BeForbidden("update resourcequotas"))
		By("having the check deleted")
		kubectl(ctx, "", "delete", "validatingadmissionpolicies,validatingadmissionpolicybindings", "berth-writers")
		kubectl(ctx, "", "wait", "--for=create", "--timeout=2m", "validatingadmissionpolicybinding/berth-writers")
		Eventually(raiseQuota).WithContext(ctx).WithArguments(own).Should(framework.BeForbidden("update resourcequotas"))
	})

	It("does not keep a namespace with a quota from being deleted", func(ctx SpecContext) {
		newNamespace(ctx, "short-lived", nil)
		kubectl(ctx, `{"apiVersion": "placement.berth.dev/v1alpha1", "kind": "ScopedQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}`,
			"create", "--namespace", "short-lived", "--filename", "-")
		kubectl(ctx, "", "delete", "namespace", "short-lived", "--timeout=60s")
	})

	It("may read no Secret in any namespace but those of its own names", func(ctx SpecContext) {
		c, err := client.New(as(ctx, installed.csv.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.ServiceAccountName), client.Options{Scheme: admin.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		namespaces := &corev1.NamespaceList{}
		Expect(admin.List(ctx, namespaces)).To(Succeed())
		for _, n := range namespaces.Items {
			review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: n.Name}}
			Expect(c.Create(ctx, review)).To(Succeed())
			Expect(review.Status.Incomplete).To(BeFalse(), review.Status.EvaluationError)
			have := grants{}
			for _, r := range review.Status.ResourceRules {
				if slices.Contains(r.Resources, "secrets") || slices.Contains(r.Resources, "*") {
					have.add([]rbacv1.PolicyRule{{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames}})
				}
			}
			Expect(slices.Collect(maps.Keys(have))).To(ConsistOf(
				"create secrets.", "get secrets. berth-intent-key",
				"get secrets. berth-webhook-cert", "list secrets. berth-webhook-cert", "watch secrets. berth-webhook-cert", "update secrets. berth-webhook-cert",
				"get secrets. berth-webhook-token", "list secrets. berth-webhook-token", "watch secrets. berth-webhook-token", "update secrets. berth-webhook-token",
			), n.Name)
			Expect(c.List(ctx, &corev1.SecretList{}, client.InNamespace(n.Name))).To(framework.BeForbidden("cannot list"))
		}
	})

	// As docs/remote-engines.md says.
	It("reads Secrets for engines once a Role of the administrator's lets it", func(ctx SpecContext) {
		kubectl(ctx, "", "create", "secret", "generic", "opa-token", "--namespace", installNamespace, "--from-literal=token=t")
		newNamespace(ctx, "decided-elsewhere", nil)
		p := framework.NewPolicy("remote", "", "", "configmaps", "decided-elsewhere")
		p.Spec.Remote = &placementv1.Remote{
			// No server listens there: the error shows whether the Secret was read.
			URL: "https://127.0.0.1:1/v1/data/placement", Undefined: placementv1.UndefinedError,
			TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: "opa-token"}},
		}
		Expect(admin.Create(ctx, p)).To(Succeed())
		try := func(ctx context.Context) error {
			return admin.Create(ctx, framework.NewObject(framework.ConfigMap, "decided-elsewhere", "c", nil))
		}
		Eventually(try).WithContext(ctx).Should(MatchError(ContainSubstring(`secrets "opa-token" is forbidden`)))
		kubectl(ctx, "", "create", "role", "berth-engine-secrets", "--namespace", installNamespace, "--verb=get", "--resource=secrets", "--resource-name=opa-token")
		kubectl(ctx, "", "create", "rolebinding", "berth-engine-secrets", "--namespace", installNamespace, "--role=berth-engine-secrets",
			"--serviceaccount="+installNamespace+":berth-controller-manager")
		Eventually(try).WithContext(ctx).Should(MatchError(And(ContainSubstring("can't decide"), Not(ContainSubstring("opa-token")))))
		Expect(admin.Delete(ctx, p)).To(Succeed())
	})

	// As the CSV's description says.
	It("is given more by a label once the aggregated role is bound", func(ctx SpecContext) {
		p := framework.NewPolicy("more", framework.Rego(`labels["example.com/classes"] := sprintf("%v", [count(data.kubernetes.runtimeclasses)])`), "apps", "deployments", other)
		Expect(admin.Create(ctx, p)).To(Succeed())
		Eventually(func(ctx context.Context) (string, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(p), p)
			return fmt.Sprint(p.Status.Conditions), err
		}).WithContext(ctx).Should(ContainSubstring(`apiGroups: ["node.k8s.io"], resources: ["runtimeclasses"], verbs: [get, list, watch]`))
		kubectl(ctx, "", "create", "clusterrolebinding", "berth-workloads", "--clusterrole=berth-workloads", "--serviceaccount="+installNamespace+":berth-controller-manager")
		Expect(admin.Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "berth-reads-runtime-classes", Labels: map[string]string{"placement.berth.dev/aggregate-to-manager": "true"}},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"}, Verbs: []string{"get", "list", "watch"}}},
		})).To(Succeed())
		ready := &unstructured.Unstructured{}
		ready.SetAPIVersion("placement.berth.dev/v1alpha1")
		ready.SetKind("PlacementPolicy")
		ready.SetName(p.Name)
		awaitReady(ctx, ready, m)
	})

	// create creates a pod that nothing covers: the example's LimitedResource has it denied.
	create := func(ctx context.Context) error {
		return admin.Create(ctx, framework.NewPod(other, "", func(p *corev1.Pod) { p.Spec.PriorityClassName = "cluster-services" }), client.DryRunAll)
	}

	// OLM v1 removes every object of the bundle.
	It("leaves no webhook behind when its role goes", func(ctx SpecContext) {
		owner := installed.owner()
		if owner == "" {
			Skip("the manager is told no role to have its webhook configurations go with")
		}
		Expect(webhooks(ctx)).NotTo(BeEmpty())
		m.stop()
		Expect(create(ctx)).NotTo(Succeed())
		kubectl(ctx, "", "delete", "clusterrole", owner)
		Eventually(webhooks).WithContext(ctx).Should(BeEmpty())
		Eventually(create).WithContext(ctx).Should(Succeed())
	})

	It("lets no other user write policies, quotas, or limits while it is not running", func(ctx SpecContext) {
		Expect(raiseQuota(ctx, own)).To(framework.BeForbidden("update resourcequotas"))
		examples, err := installed.examples()
		Expect(err).NotTo(HaveOccurred())
		for _, e := range examples {
			expectGuarded(ctx, asUser("edit-of-all"), e, own)
		}
	})

	// OLM v0 leaves the objects of the bundle where they are, and deletes the roles that it made from the CSV.
	Context("under OLM v0", func() {
		const next = "berth.v9.9.9"
		var (
			leader, successor *replica
			before            map[types.UID][]string
		)
		BeforeAll(func(ctx SpecContext) {
			leader, successor = start(ctx, installed.csv.Metadata.Name), nil
		})
		AfterAll(func() {
			leader.stop()
			if successor != nil {
				_ = successor.end()
			}
		})

		It("has its webhook configurations owned by the roles that OLM made", func(ctx SpecContext) {
			Eventually(owners).WithContext(ctx).Should(And(HaveLen(3), HaveEach(rolesOf(ctx, installed.csv.Metadata.Name))))
			var err error
			before, err = owners(ctx)
			Expect(err).NotTo(HaveOccurred())
		})

		It("keeps them when the next version takes its place", func(ctx SpecContext) {
			grant(ctx, installed.csv.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.ServiceAccountName, next)
			successor = start(ctx, next)
			// As soon as the successor is Ready, and although it does not lead yet.
			deleteRolesOf(ctx, installed.csv.Metadata.Name)
			Eventually(owners).WithContext(ctx).Should(HaveEach(rolesOf(ctx, next)), "the garbage collector has not looked yet")
			after, err := owners(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(slices.Collect(maps.Keys(after))).To(ConsistOf(slices.Collect(maps.Keys(before))), "they were deleted and made anew")
		})

		// The successor is Ready, and the old version leads on: its pod may take a while to end, or its node may be cut off.
		It("keeps their owners while the old leader goes on without its roles", func(ctx SpecContext) {
			kept := framework.NewPolicy("kept", framework.Rego(`labels["example.com/kept"] := "yes"`), "apps", "statefulsets", other)
			Expect(admin.Create(ctx, kept)).To(Succeed())
			// So the old leader has written the configuration.
			Eventually(rulesOf).WithContext(ctx).WithArguments("berth-placement").Should(ContainSubstring("statefulsets"), leader.refused.String)
			Expect(owners(ctx)).To(HaveEach(rolesOf(ctx, next)))
			leader.stop()
		})

		It("leaves none behind when it is uninstalled while it runs", func(ctx SpecContext) {
			deleteRolesOf(ctx, next)
			Eventually(webhooks).WithContext(ctx).Should(BeEmpty())
			Consistently(webhooks).WithContext(ctx).WithTimeout(2 * time.Second).Should(BeEmpty())
			Eventually(create).WithContext(ctx).Should(Succeed())
			// Nor can it renew its lease, so it may end by itself meanwhile.
			_ = successor.end()
		})

		// The next version's pods never start, and its roles give the ServiceAccount of the old leader every right, also while OLM
		// deletes the old version.
		It("leaves none behind when it is uninstalled in the midst of an upgrade that hangs", func(ctx SpecContext) {
			const first, hanging = "berth.v10.0.0", "berth.v11.0.0"
			account := installed.csv.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.ServiceAccountName
			// What OLM v1 deleted above; OLM v0 never does.
			kubectl(ctx, "", "create", "--namespace", installNamespace, "--filename", "bundle/manifests/"+installed.owner()+"_rbac.authorization.k8s.io_v1_clusterrole.yaml")
			grant(ctx, account, first)
			old := start(ctx, first)
			DeferCleanup(old.stop)
			// The replica before had no right left to release the lease.
			Eventually(owners).WithContext(ctx).WithTimeout(2*framework.Timeout).Should(And(HaveLen(3), HaveEach(rolesOf(ctx, first))), old.refused.String)
			grant(ctx, account, hanging)
			deleteRolesOf(ctx, first)
			Eventually(webhooks).WithContext(ctx).Should(BeEmpty())
			// The old leader goes on: each change of a policy has it reconcile. Its status shows that it did.
			p := framework.NewPolicy("late", framework.Rego(`labels["example.com/late"] := "yes"`), "apps", "statefulsets", other)
			Expect(admin.Create(ctx, p)).To(Succeed())
			Eventually(func(ctx context.Context) ([]metav1.Condition, error) {
				err := admin.Get(ctx, client.ObjectKeyFromObject(p), p)
				return p.Status.Conditions, err
			}).WithContext(ctx).Should(ContainElement(HaveField("Type", "Compiled")), old.refused.String)
			Consistently(webhooks).WithContext(ctx).WithTimeout(2 * time.Second).Should(BeEmpty())
			deleteRolesOf(ctx, hanging)
			Consistently(webhooks).WithContext(ctx).WithTimeout(2 * time.Second).Should(BeEmpty())
			Eventually(create).WithContext(ctx).Should(Succeed())
		})

		// As docs/install.md says.
		It("stays disabled after the emergency exit that works without OLM, while it runs", func(ctx SpecContext) {
			blocks, err := documents.Read(root)
			Expect(err).NotTo(HaveOccurred())
			blocks = slices.DeleteFunc(blocks, func(b documents.Block) bool {
				return b.File != "docs/install.md" || b.Heading != "The emergency exit if OLM does not run"
			})
			Expect(blocks).To(HaveLen(1))
			// The replica before had no right left to release it.
			Expect(admin.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(installNamespace))).To(Succeed())
			grant(ctx, installed.csv.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.ServiceAccountName, installed.csv.Metadata.Name)
			r := start(ctx, installed.csv.Metadata.Name)
			// Without rights it may end by itself.
			DeferCleanup(func() { _ = r.end() })
			Eventually(webhooks).WithContext(ctx).Should(HaveLen(3), r.refused.String)
			for line := range strings.Lines(blocks[0].Text) {
				command := strings.Fields(line)
				Expect(command[0]).To(Equal("kubectl"))
				kubectl(ctx, "", command[1:]...)
			}
			Eventually(webhooks).WithContext(ctx).Should(BeEmpty())
			Consistently(webhooks).WithContext(ctx).WithTimeout(2 * time.Second).Should(BeEmpty())
			Eventually(create).WithContext(ctx).Should(Succeed())
			deleteRolesOf(ctx, installed.csv.Metadata.Name)
		})

		It("leaves none behind when it ended first, and policies are deleted before its roles are", func(ctx SpecContext) {
			const last = "berth.v12.0.0"
			// The replica before had no right left to release it.
			Expect(admin.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(installNamespace))).To(Succeed())
			grant(ctx, installed.csv.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.ServiceAccountName, last)
			r := start(ctx, last)
			DeferCleanup(r.stop)
			Eventually(webhooks).WithContext(ctx).Should(HaveLen(3), r.refused.String)
			Eventually(create).WithContext(ctx).Should(framework.BeForbidden("insufficient quota to match these scopes"))
			r.stop()
			Expect(admin.DeleteAllOf(ctx, &placementv1.PlacementPolicy{})).To(Succeed())
			Expect(admin.DeleteAllOf(ctx, &placementv1.LimitedResource{})).To(Succeed())
			Expect(create(ctx)).NotTo(Succeed(), "nobody answers the webhooks any more")
			deleteRolesOf(ctx, last)
			Eventually(webhooks).WithContext(ctx).Should(BeEmpty())
			Eventually(create).WithContext(ctx).Should(Succeed())
		})

		It("still lets no other user write the quotas that OLM v0 keeps", func(ctx SpecContext) {
			Expect(raiseQuota(ctx, own)).To(framework.BeForbidden("update resourcequotas"))
		})
	})

	It("leaves no admission policy behind once the definitions are deleted", func(ctx SpecContext) {
		for _, kind := range installed.csv.Spec.Definitions.Owned {
			kubectl(ctx, "", "delete", "customresourcedefinition", kind.Name)
		}
		Eventually(func(ctx context.Context) ([]string, error) {
			policies, bindings := &admissionregistrationv1.ValidatingAdmissionPolicyList{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}
			err := errors.Join(admin.List(ctx, policies), admin.List(ctx, bindings))
			var out []string
			for _, p := range policies.Items {
				out = append(out, p.Name)
			}
			for _, b := range bindings.Items {
				out = append(out, b.Name)
			}
			return out, err
		}).WithContext(ctx).Should(BeEmpty())
	})
})

// editor is a user who may edit a namespace.
const editor = "editor"

// asUser returns a client of a user.
func asUser(name string) client.Client {
	GinkgoHelper()
	cfg := rest.CopyConfig(plane.Config())
	cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	out, err := client.New(cfg, client.Options{Scheme: admin.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// specPatches change the spec of an example, by its kind.
var specPatches = map[string]client.Patch{
	"PlacementPolicy":    client.RawPatch(types.MergePatchType, []byte(`{"spec": {"mode": "DryRun"}}`)),
	"ScopedQuota":        client.RawPatch(types.MergePatchType, []byte(`{"spec": {"hard": {"pods": "9999"}}}`)),
	"ClusterScopedQuota": client.RawPatch(types.MergePatchType, []byte(`{"spec": {"hard": {"pods": "9999"}}}`)),
	"LimitedResource":    client.RawPatch(types.MergePatchType, []byte(`{"spec": {"matchContains": ["pods"]}}`)),
}

// storedExample returns an example as it is stored. ScopedQuotas are in the namespace.
func storedExample(ctx context.Context, example *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	GinkgoHelper()
	out := example.DeepCopy()
	if out.GetKind() == "ScopedQuota" {
		out.SetNamespace(namespace)
	}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(out), out)).To(Succeed())
	return out
}

// renamed returns a new object with the spec of a stored one.
func renamed(stored *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": stored.DeepCopy().Object["spec"]}}
	out.SetGroupVersionKind(stored.GroupVersionKind())
	out.SetNamespace(stored.GetNamespace())
	out.SetName("second")
	return out
}

// expectGuarded expects that a user with all verbs on a kind can't write its objects.
func expectGuarded(ctx context.Context, c client.Client, example *unstructured.Unstructured, namespace string) {
	GinkgoHelper()
	stored := storedExample(ctx, example, namespace)
	guarded := framework.BeForbidden("this takes the right to update")
	By(example.GetKind())
	// RBAC permits it soon: the message then is that of the admission policy.
	Eventually(c.Patch).WithContext(ctx).WithArguments(stored.DeepCopy(), specPatches[example.GetKind()]).Should(guarded)
	// Berth may write the status in between, so that the API server answers with a conflict.
	Eventually(func(g Gomega) {
		changed := stored.DeepCopy()
		g.Expect(admin.Patch(ctx, changed, specPatches[example.GetKind()], client.DryRunAll)).To(Succeed())
		g.Expect(c.Update(ctx, changed)).To(guarded)
	}).WithContext(ctx).Should(Succeed())
	Expect(c.Create(ctx, renamed(stored))).To(guarded)
	Expect(c.Apply(ctx, client.ApplyConfigurationFromUnstructured(renamed(stored)), client.FieldOwner("somebody"))).To(guarded)
	Expect(c.Delete(ctx, stored)).To(guarded)
	Expect(c.DeleteAllOf(ctx, stored.DeepCopy(), client.InNamespace(stored.GetNamespace()))).To(framework.BeForbidden(""))
	status := client.RawPatch(types.MergePatchType, []byte(`{"status": {"observedGeneration": 0}}`))
	Expect(c.Status().Patch(ctx, stored.DeepCopy(), status)).To(framework.BeForbidden(""))
	Expect(c.Status().Update(ctx, stored.DeepCopy())).To(framework.BeForbidden(""))
	owned := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "1"}]}}`))
	Expect(c.Patch(ctx, stored.DeepCopy(), owned)).To(guarded)
	if example.GetKind() == "PlacementPolicy" {
		approved := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"placement.berth.dev/approve": "sha256:0"}}}`))
		Expect(c.Patch(ctx, stored.DeepCopy(), approved)).To(guarded)
	}
}

// raiseQuota has the editor raise the example's quota in a namespace.
func raiseQuota(ctx context.Context, namespace string) error {
	quota := &placementv1.ScopedQuota{}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "pods-cluster-services"}, quota); err != nil {
		return err
	}
	pods := quota.Spec.Hard[corev1.ResourcePods]
	pods.Add(resource.MustParse("1"))
	quota.Spec.Hard[corev1.ResourcePods] = pods
	return asUser(editor).Update(ctx, quota)
}

// owners returns the names of the owners of the webhook configurations, by the uid of the configuration.
func owners(ctx context.Context) (map[types.UID][]string, error) {
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfigurationList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	err := errors.Join(admin.List(ctx, mutating), admin.List(ctx, validating))
	out := map[types.UID][]string{}
	add := func(m metav1.ObjectMeta) {
		for _, o := range m.OwnerReferences {
			out[m.UID] = append(out[m.UID], o.Name)
		}
	}
	for _, c := range mutating.Items {
		add(c.ObjectMeta)
	}
	for _, c := range validating.Items {
		add(c.ObjectMeta)
	}
	return out, err
}

// rulesOf returns the rules of the mutating webhook configuration of a name.
func rulesOf(ctx context.Context, name string) (string, error) {
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := admin.Get(ctx, client.ObjectKey{Name: name}, hook)
	var out []string
	for _, w := range hook.Webhooks {
		out = append(out, fmt.Sprint(w.Rules))
	}
	return strings.Join(out, "\n"), err
}

// rolesOf returns the names of the ClusterRoles that OLM made for a version.
func rolesOf(ctx context.Context, version string) []string {
	GinkgoHelper()
	roles := &rbacv1.ClusterRoleList{}
	Expect(admin.List(ctx, roles, client.MatchingLabels(labelsOf(version)))).To(Succeed())
	var out []string
	for _, r := range roles.Items {
		out = append(out, r.Name)
	}
	Expect(out).NotTo(BeEmpty())
	return out
}

// deleteRolesOf does what OLM does with a version that is deleted.
func deleteRolesOf(ctx context.Context, version string) {
	GinkgoHelper()
	for _, o := range []client.Object{&rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRole{}} {
		Expect(admin.DeleteAllOf(ctx, o, client.MatchingLabels(labelsOf(version)))).To(Succeed())
	}
}

// webhooks returns the names of the webhook configurations.
func webhooks(ctx context.Context) ([]string, error) {
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfigurationList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	err := errors.Join(admin.List(ctx, mutating), admin.List(ctx, validating))
	var out []string
	for _, c := range mutating.Items {
		out = append(out, c.Name)
	}
	for _, c := range validating.Items {
		out = append(out, c.Name)
	}
	return out, err
}

func manifest(o *unstructured.Unstructured) string {
	GinkgoHelper()
	text, err := json.Marshal(o)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// createCluster adds a cluster that the example's policy likes to the inventory.
func createCluster(ctx context.Context, name string) {
	GinkgoHelper()
	kubectl(ctx, fmt.Sprintf(`{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
		"metadata": {"namespace": "fleet", "name": %q, "labels": {"region": "eu", "pci-level": "3"}},
		"spec": {"displayName": %[1]q, "clusterManager": {"name": "test"}}}`, name), "create", "--filename", "-")
}

// clustersOf returns where the example's policy places an object.
func clustersOf(o client.Object) []string {
	var preferences struct {
		Clusters map[string]any `json:"clusters"`
	}
	// What is no JSON names no cluster.
	_ = json.Unmarshal([]byte(o.GetAnnotations()["placement.example.com/clusters"]), &preferences)
	var out []string
	for name := range preferences.Clusters {
		out = append(out, name)
	}
	return out
}

// awaitReady waits until the newest generation of an object is Ready.
func awaitReady(ctx context.Context, o *unstructured.Unstructured, m *replica) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) (string, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(o), o)
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if c, _ := c.(map[string]any); c["type"] == "Ready" && c["observedGeneration"] == o.GetGeneration() {
				return fmt.Sprintf("%s: %s", c["status"], c["message"]), err
			}
		}
		return "unknown", err
	}).WithContext(ctx).Should(HavePrefix("True"), func() string { return o.GetKind() + " " + o.GetName() + "; " + m.refused.String() })
}

func used(ctx context.Context, kind, namespace, name string) (map[string]string, error) {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("placement.berth.dev/v1alpha1")
	o.SetKind(kind)
	err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	out, _, _ := unstructured.NestedStringMap(o.Object, "status", "used")
	return out, err
}
