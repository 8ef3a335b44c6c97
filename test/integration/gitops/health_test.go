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

package gitops_test

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// healthKey is how a key of Argo CD's ConfigMap begins that has a kind's script.
const healthKey = "resource.customizations.health.placement.berth.dev_"

// scripts returns the health script of each kind, from the file that users patch Argo CD with.
func scripts() map[string]string {
	GinkgoHelper()
	var patch struct {
		Data map[string]string `json:"data"`
	}
	Expect(yaml.UnmarshalStrict([]byte(read(examples+"argocd-cm.yaml")), &patch)).To(Succeed())
	out := map[string]string{}
	for key, script := range patch.Data {
		kind, ok := strings.CutPrefix(key, healthKey)
		Expect(ok).To(BeTrue(), key)
		out[kind] = script
	}
	return out
}

// argo runs the kind's script as Argo CD does, which gives it the base and table libraries and the object as obj.
func argo(o *unstructured.Unstructured) string {
	GinkgoHelper()
	script, ok := scripts()[o.GetKind()]
	Expect(ok).To(BeTrue(), "no script for %s", o.GetKind())
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		Expect(l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name))).To(Succeed())
	}
	l.SetGlobal("obj", value(l, o.Object))
	Expect(l.DoString(script)).To(Succeed())
	health, ok := l.Get(-1).(*lua.LTable)
	Expect(ok).To(BeTrue(), "the script returns no table")
	Expect(health.RawGetString("message").String()).NotTo(BeEmpty())
	return health.RawGetString("status").String()
}

// value is v as a script sees it.
func value(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, item := range v {
			table.RawSetString(key, value(l, item))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, item := range v {
			table.Append(value(l, item))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}

// health is how both tools see an object, as in "Current Healthy".
func health(ctx context.Context, o client.Object) (string, error) {
	gvk, err := apiutil.GVKForObject(o, f.Client.Scheme())
	if err != nil {
		return "", err
	}
	u, err := f.Get(ctx, gvk, o.GetNamespace(), o.GetName())
	if err != nil {
		return "", err
	}
	flux, err := status.Compute(u)
	if err != nil {
		return "", err
	}
	return flux.Status.String() + " " + argo(u), nil
}

var _ = Describe("The health of Berth's objects", func() {
	const (
		healthy    = "Current Healthy"
		inProgress = "InProgress Progressing"
		failed     = "Failed Degraded"
		waiting    = "InProgress Degraded"
	)
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = f.NewNamespace(ctx, nil) })

	// create creates the object, which the spec's end deletes.
	create := func(ctx context.Context, o client.Object) {
		GinkgoHelper()
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(f.Client.Delete(ctx, o))).To(Succeed())
		})
	}
	pods := placementv1.QuotaSpec{Hard: framework.Hard("pods", "2")}
	policy := func(rego string) *placementv1.PlacementPolicy {
		return framework.NewPolicy("health", rego, "", "configmaps", namespace)
	}
	const sound = `package p

annotations["example.com/zone"] := "a"
`
	newLimit := func(resource string) *placementv1.LimitedResource {
		out := &placementv1.LimitedResource{}
		out.Name = "health"
		out.Spec.Resource, out.Spec.MatchContains = resource, []string{"pods"}
		return out
	}
	quotaOf := func(spec placementv1.QuotaSpec) *placementv1.ScopedQuota {
		return framework.NewScopedQuota(namespace, "health", spec)
	}
	newShared := func() *placementv1.ClusterScopedQuota {
		out := &placementv1.ClusterScopedQuota{}
		out.Name, out.Spec.QuotaSpec = "health", pods
		return out
	}

	DescribeTable("that nobody has looked at yet is in progress, and good when Berth has", func(ctx SpecContext, build func() client.Object) {
		o := build()
		create(ctx, o)
		Expect(health(ctx, o)).To(Equal(inProgress))
		m := f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)
		Eventually(health).WithContext(ctx).WithArguments(o).Should(Equal(healthy))
	},
		Entry("PlacementPolicy", func() client.Object { return policy(sound) }),
		Entry("ScopedQuota", func() client.Object { return quotaOf(pods) }),
		Entry("ClusterScopedQuota", func() client.Object { return newShared() }),
		Entry("LimitedResource", func() client.Object { return newLimit("pods") }),
	)

	DescribeTable("that their author has to correct is failed", func(ctx SpecContext, build func() client.Object) {
		o := build()
		create(ctx, o)
		m := f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)
		Eventually(health).WithContext(ctx).WithArguments(o).Should(Equal(failed))
	},
		Entry("PlacementPolicy that does not compile", func() client.Object {
			return policy(`package p

this is not rego`)
		}),
		Entry("ScopedQuota of what is not counted", func() client.Object {
			return quotaOf(placementv1.QuotaSpec{Hard: framework.Hard("count/leases.coordination.k8s.io", "1")})
		}),
		Entry("LimitedResource on what is never limited", func() client.Object {
			out := newLimit("leases")
			out.Spec.APIGroup = "coordination.k8s.io"
			return out
		}),
	)

	It("that waits for a type is no failure, and heals", func(ctx SpecContext) {
		o := policy(`package p

annotations["example.com/n"] := count(data.kubernetes.harbours)
`)
		create(ctx, o)
		m := f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)
		Eventually(health).WithContext(ctx).WithArguments(o).Should(Equal(waiting))
		f.InstallCRD(ctx, framework.NewCRD("health.example.com", "v1", "harbours", "Harbour", "Namespaced"))
		Eventually(health).WithContext(ctx).WithArguments(o).Should(Equal(healthy))
	})

	It("is in progress from a change on until Berth has seen it", func(ctx SpecContext) {
		o, q := policy(sound), quotaOf(pods)
		create(ctx, o)
		create(ctx, q)
		m := f.StartReadyManager(ctx)
		for _, one := range []client.Object{o, q} {
			Eventually(health).WithContext(ctx).WithArguments(one).Should(Equal(healthy))
		}
		m.Stop()
		f.ChangePolicy(ctx, o.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = strings.ReplaceAll(sound, `"a"`, `"b"`) })
		Expect(health(ctx, o)).To(Equal(inProgress))
		Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)).To(Succeed())
		q.Spec.Hard = framework.Hard("pods", "3")
		Expect(f.Client.Update(ctx, q)).To(Succeed())
		Expect(health(ctx, q)).To(Equal(inProgress))
	})

	It("is not bad for violations, nor for a mode that denies nothing, nor for a quota that is exceeded", func(ctx SpecContext) {
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "web", nil))).To(Succeed())
		o := policy(`package p

errors contains "no"
`)
		o.Spec.Mode = placementv1.ModeWarn
		q := quotaOf(placementv1.QuotaSpec{Hard: framework.Hard("count/configmaps", "0")})
		create(ctx, o)
		create(ctx, q)
		m := f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)
		Eventually(func(ctx context.Context) (string, error) {
			c, err := f.Condition(ctx, o.Name, placementv1.ConditionCompliant)
			return c.Reason, err
		}).WithContext(ctx).Should(Equal(placementv1.ReasonViolations))
		Eventually(health).WithContext(ctx).WithArguments(o).Should(Equal(healthy))
		Eventually(func(ctx context.Context) (*metav1.Condition, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
			return meta.FindStatusCondition(q.Status.Conditions, placementv1.ConditionExceeded), err
		}).WithContext(ctx).Should(And(Not(BeNil()), framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonAboveHard)))
		Eventually(health).WithContext(ctx).WithArguments(q).Should(Equal(healthy))
	})
})

var _ = Describe("The health scripts for Argo CD", func() {
	It("are for every kind, and the same for each", func() {
		all := scripts()
		Expect(slices.Collect(maps.Keys(all))).To(ConsistOf("PlacementPolicy", "ScopedQuota", "ClusterScopedQuota", "LimitedResource"))
		Expect(all).To(HaveEach(all["PlacementPolicy"]))
	})

	It("are patched into Argo CD's ConfigMap by the document's command", func(ctx SpecContext) {
		command := regexp.MustCompile(`(?m)^\$ (kubectl --namespace argocd patch configmap .*)$`).FindStringSubmatch(read("docs/gitops.md"))
		Expect(command).NotTo(BeEmpty())
		f.MustKubectl(ctx, "", "create", "namespace", "argocd")
		f.MustKubectl(ctx, "", "create", "configmap", "argocd-cm", "--namespace=argocd", "--from-literal=url=https://argocd.example.com")
		out, err := f.Shell(ctx, command[1])
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(f.MustKubectl(ctx, "", "get", "configmap", "argocd-cm", "--namespace=argocd", "-o", "yaml")).
			To(And(ContainSubstring("url: https://argocd.example.com"), ContainSubstring(healthKey+"ScopedQuota: |")))
	})
})
