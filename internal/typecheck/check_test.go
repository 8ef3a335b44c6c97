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

package typecheck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/types"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/typecheck"
)

// served is a fake API server: resources by plural name.
type served map[string]policy.Resource

func (s served) ByPlural(plural string) []policy.Resource {
	if r, ok := s[plural]; ok {
		return []policy.Resource{r}
	}
	return nil
}

func (s served) Exact(r schema.GroupVersionResource) (policy.Resource, bool) {
	found, ok := s[r.Resource]
	return found, ok && found.GroupVersionResource == r
}

func (served) Inventories() *replication.Inventories { return replication.Known() }

// cluster serves some built-in types, an inventory, and quotas.
var cluster = func() served {
	out := served{}
	for _, r := range []policy.Resource{
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespaced: true},
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Namespaced: true},
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}},
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}},
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, Namespaced: true},
		{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespaced: true},
		{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, Namespaced: true},
		{GroupVersionResource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Namespaced: true},
		{GroupVersionResource: schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}, Namespaced: true},
		{GroupVersionResource: placementv1.GroupVersion.WithResource("scopedquotas"), Namespaced: true},
	} {
		out[r.Resource] = r
	}
	return out
}()

var kindOf = map[string]string{
	"pods": "Pod", "secrets": "Secret", "nodes": "Node", "services": "Service", "namespaces": "Namespace",
	"deployments": "Deployment", "statefulsets": "StatefulSet", "jobs": "Job",
}

// kinds has the types of all kinds in the recorded OpenAPI documents.
var kinds = sync.OnceValue(func() map[schema.GroupVersionKind]types.Type {
	out := map[schema.GroupVersionKind]types.Type{}
	for _, gv := range []schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "batch", Version: "v1"}} {
		name := strings.TrimPrefix(gv.Group+"."+gv.Version, ".") + ".json"
		document, err := os.ReadFile(filepath.Join("testdata", "openapi", name))
		if err != nil {
			panic(err)
		}
		parsed, err := typecheck.ParseOpenAPI(gv, document)
		if err != nil {
			panic(err)
		}
		for kind, t := range parsed {
			out[gv.WithKind(kind)] = t
		}
	}
	return out
})

func typeOf(resource policy.Resource) types.Type {
	return kinds()[resource.GroupVersion().WithKind(kindOf[resource.Resource])]
}

// input returns the input for a policy that matches the types with the given plural names.
func input(t testing.TB, spec placementv1.PlacementPolicySpec, matched ...string) typecheck.Input {
	t.Helper()
	module, err := policy.Compile("p", spec)
	if err != nil {
		t.Fatalf("%v\n%s", err, spec.Rego)
	}
	binding, err := policy.Bind("p", module, spec.Replicate, cluster)
	if err != nil {
		t.Fatal(err)
	}
	in := typecheck.Input{Spec: spec, Binding: binding, Objects: map[schema.GroupVersionResource]types.Type{}, Known: module.Findings}
	for _, r := range binding.Resources {
		in.Objects[r.GroupVersionResource] = typeOf(r)
	}
	for _, plural := range matched {
		r := cluster[plural]
		in.Kinds = append(in.Kinds, typecheck.Kind{Resource: r.GroupResource(), Type: typeOf(r)})
	}
	return in
}

func texts(r typecheck.Result) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, fmt.Sprintf("%d:%d: %s [%s]", f.Row, f.Col, f.Message, f.Rule))
	}
	return out
}

func TestCheck(t *testing.T) {
	const header = "package p\n\n"
	tests := map[string]struct {
		rego    string
		matched []string
		data    string
		v0      bool
		// want has parts of the expected findings, in order. There must be no others.
		want       []string
		impossible []string
	}{
		"Sound":             {rego: `annotations["a"] := input.metadata.labels.tier`},
		"MisspeltField":     {rego: `annotations["a"] := input.metadata.lables.tier`, want: []string{`3:21: input.metadata.lables.tier is undefined: input.metadata has no field "lables"; did you mean input.metadata.labels.tier?`}, impossible: []string{"annotations"}},
		"MisspeltTopLevel":  {rego: `errors contains "x" if input.sepc.replicas > 3`, want: []string{"did you mean input.spec.replicas?"}, impossible: []string{"errors"}},
		"ClusterMetadata":   {rego: `clusters contains name if { some name, c in data.clusters; c.metadata.labels.region == "eu" }`, want: []string{"c.metadata.labels.region is undefined: c has no field \"metadata\"; did you mean c.labels.region?"}, impossible: []string{"clusters"}},
		"NumberAndString":   {rego: `errors contains "x" if input.spec.replicas > "3"`, want: []string{`3:24: input.spec.replicas > "3" compares a number with a string: the comparison is always false; did you mean input.spec.replicas > 3?`}, impossible: []string{"errors"}},
		"EqualTypes":        {rego: `errors contains "x" if input.spec.replicas == "3"`, want: []string{`compares a number with a string`}, impossible: []string{"errors"}},
		"AlwaysUnequal":     {rego: `errors contains "x" if input.metadata.labels.tier != 3`, want: []string{`compares a string with a number: the comparison is always true`}},
		"AlwaysGreater":     {rego: `errors contains "x" if input.metadata.labels.tier >= 3`, want: []string{`compares a string with a number: the comparison is always true`}},
		"LabelAsNumber":     {rego: `clusters contains name if { some name, c in data.clusters; c.labels["pci-level"] >= 3 }`, want: []string{`3:60: c.labels["pci-level"] >= 3 compares a string with a number: the comparison is always true; did you mean to_number(c.labels["pci-level"]) >= 3?`}},
		"LabelTurned":       {rego: `warnings contains "x" if { some c in data.clusters; 3 <= c.labels.level }`, want: []string{`did you mean 3 <= to_number(c.labels.level)?`}},
		"LabelOfFields":     {rego: `warnings contains "x" if { some c in data.clusters; to_number(input.metadata.labels.level) > c.labels.level }`, want: []string{`did you mean to_number(input.metadata.labels.level) > to_number(c.labels.level)?`}, impossible: []string{"warnings"}},
		"LabelEqualsNumber": {rego: `errors contains "x" if input.metadata.labels.level == 3`, want: []string{`did you mean input.metadata.labels.level == "3"?`}, impossible: []string{"errors"}},
		"LabelEqualsTrue":   {rego: `errors contains "x" if not input.metadata.labels.gpu == true`, want: []string{`did you mean input.metadata.labels.gpu == "true"?`}},
		"PropertyAsNumber":  {rego: `warnings contains "x" if { some c in data.clusters; c.properties.level >= 3 }`, want: []string{`did you mean to_number(c.properties.level) >= 3?`}},
		"FreeAsNumber":      {rego: `warnings contains "x" if { some c in data.clusters; c.allocatable["nvidia.com/gpu"] > 0 }`, want: []string{`c.allocatable["nvidia.com/gpu"] > 0 compares a quantity with a number`}},
		"ReadyAsText":       {rego: `clusters contains name if { some name, c in data.clusters; c.ready == "true" }`, want: []string{`3:60: c.ready == "true" compares a boolean with a string: values of different types are never equal; did you mean c.ready == true?`}, impossible: []string{"clusters"}},
		"ReadyTurned":       {rego: `warnings contains "x" if { some c in data.clusters; "false" != c.ready }`, want: []string{`the comparison is always true; did you mean false != c.ready?`}},
		"ReadyAsWord":       {rego: `warnings contains "x" if { some c in data.clusters; c.ready == "yes" }`, want: []string{`values of different types are never equal [`}, impossible: []string{"warnings"}},
		"ReadyIn":           {rego: `clusters contains name if { some name, c in data.clusters; c.ready in {"true", "True"} }`, want: []string{`3:60: c.ready in {"true", "True"} compares a boolean with a string: values of different types are never equal`}, impossible: []string{"clusters"}},
		"LabelIn":           {rego: `errors contains "x" if not input.metadata.labels.level in [1, 2]`, want: []string{`input.metadata.labels.level in [1, 2] compares a string with a number`}},
		"ZonesEqual":        {rego: `clusters contains name if { some name, c in data.clusters; c.zones == "a" }`, want: []string{`compares an array with a string: values of different types are never equal; did you mean "a" in c.zones?`}, impossible: []string{"clusters"}},
		"ZoneField":         {rego: `clusters contains name if { some name, c in data.clusters; c.zone == "a" }`, want: []string{`c.zone is undefined: c has no field "zone"; did you mean c.zones?`}, impossible: []string{"clusters"}},
		"NumbersAsText":     {rego: `clusters contains name if { some name, c in data.clusters; c.labels.price < "10" }`, want: []string{`3:60: c.labels.price < "10" compares numbers as text, in which "9" is greater than "10"; did you mean to_number(c.labels.price) < 10?`}},
		"NumbersTurned":     {rego: `warnings contains "x" if { some c in data.clusters; "0.5" >= c.properties.price }`, want: []string{`did you mean 0.5 >= to_number(c.properties.price)?`}},
		"NumbersOfHelper": {rego: `warnings contains "x" if { some c in data.clusters; cheap(c) }
cheap(c) if c.labels.price < "10"`, want: []string{`4:13: c.labels.price < "10" compares numbers as text`}},
		"NumbersInTerm":   {rego: `annotations["a"] := "b" if { some c in data.clusters; low := [c.labels.price < "10"]; low[0] }`, want: []string{`3:63: c.labels.price < "10" compares numbers as text`}},
		"VersionsAsText":  {rego: `warnings contains "x" if { some c in data.clusters; c.version >= "v1.30" }`, want: []string{`c.version >= "v1.30" compares versions as text, in which "1.9" is greater than "1.10"; compare the numbers in them, as in to_number(split(c.version, ".")[1])`}},
		"VersionAsNumber": {rego: `warnings contains "x" if { some c in data.clusters; c.version >= 1.30 }`, want: []string{`compares a string with a number: the comparison is always true [`}},
		"TextsInOrder": {rego: `warnings contains "x" if { some c in data.clusters; c.labels.wave < "b"; c.labels.since > "20260101"; c.labels.hour >= "08"; c.region < input.metadata.name; "1" < "10" }
warnings contains "y" if { some c in data.clusters; to_number(c.labels.price) < 10; c.labels.price == "10"; c.ready == true; c.ready != false; to_number(c.labels.level) in {1, 2} }`},
		"AlwaysLess":       {rego: `errors contains "x" if input.spec.replicas < "3"`, want: []string{`the comparison is always true`}},
		"AdmissionRequest": {rego: `errors contains "x" if input.request.object.metadata.name == "x"`, want: []string{"input is the object itself"}, impossible: []string{"errors"}},
		"SecretPayload":    {rego: `annotations["a"] := data.kubernetes.secrets.shop.token.data.x`, want: []string{"the payload of Secrets is never replicated"}, impossible: []string{"annotations"}},
		"SecretLabels":     {rego: `annotations["a"] := data.kubernetes.secrets.shop.token.metadata.labels.x`},
		"Replicated":       {rego: `annotations["a"] := data.kubernetes.pods[input.metadata.namespace].web.spec.nodename`, want: []string{"did you mean data.kubernetes.pods[input.metadata.namespace].web.spec.nodeName?"}, impossible: []string{"annotations"}},
		"Qualified":        {rego: `annotations["a"] := data.resources["apps/v1"].deployments.shop.web.spec.replica`, want: []string{`did you mean data.resources["apps/v1"].deployments.shop.web.spec.replicas?`}, impossible: []string{"annotations"}},
		"NamespaceLevel":   {rego: `annotations["a"] := data.kubernetes.nodes.n1.metadata.labels.zone`},
		"LevelForgotten":   {rego: `annotations["a"] := data.kubernetes.pods.web.metadata.labels.zone`, want: []string{`has no field "labels"`}, impossible: []string{"annotations"}},
		"QuotaMembers":     {rego: `annotations["a"] := data.berth.quotas.shop.q.status.used.pods`, want: []string{"did you mean data.berth.quotas.shop.q.used.pods?"}, impossible: []string{"annotations"}},
		"OwnData":          {rego: `annotations["a"] := data.regions.us`, data: `{"regions":{"eu":"x"}}`, want: []string{"data.regions.us is undefined"}, impossible: []string{"annotations"}},
		"OwnDataByKey":     {rego: `annotations["a"] := data.regions[input.metadata.labels.region]`, data: `{"regions":{"eu":"x"}}`},
		"OwnDataOptional":  {rego: `errors contains "x" if not data.cfg.tiers[input.metadata.labels.tier].disabled`, data: `{"cfg":{"tiers":{"gold":{"clusters":["a"]}}}}`},
		"OwnDataMisspelt":  {rego: `errors contains "x" if not data.cfg.tiers[input.metadata.labels.tier].disabeld`, data: `{"cfg":{"tiers":{"gold":{"disabled":true}}}}`, want: []string{"did you mean data.cfg.tiers[input.metadata.labels.tier].disabled?"}},
		"OwnDataNeeded":    {rego: `errors contains "x" if data.cfg.tiers[input.metadata.labels.tier].disabled`, data: `{"cfg":{"tiers":{"gold":{"clusters":["a"]}}}}`, want: []string{`has no field "disabled"`}, impossible: []string{"errors"}},
		"OwnDataNearby":    {rego: `annotations["a"] := data.p2.x`, data: `{"p2":{"x":1.5}}`},
		"NoFields":         {rego: `annotations["a"] := input.metadata.name.first`, want: []string{"input.metadata.name is a string and has no fields"}, impossible: []string{"annotations"}},
		"Argument":         {rego: `errors contains "x" if startswith(input.spec.replicas, "3")`, want: []string{"startswith: argument 1 is a number, and the function takes a string"}, impossible: []string{"errors"}},
		"OneOfSeveralKinds": {rego: `annotations["a"] := input.spec.volumeClaimTemplates
labels["a"] := "b"`, matched: []string{"deployments", "statefulsets"}},
		"PodPath": {rego: `errors contains "x" if { some c in input.spec.containers; endswith(c.image, ":latest") }`, matched: []string{"pods", "deployments", "statefulsets"},
			want: []string{`3:36: no rule of the policy ever has a value for an object of deployments.apps, statefulsets.apps, so that the policy neither places nor denies it: input.spec.containers is undefined: input.spec has no field "containers"`}},
		"PodPathInHelper": {rego: `first := input.spec.containers[0]
errors contains "x" if endswith(first.image, ":latest")`, matched: []string{"pods", "deployments"}, want: []string{`3:10: no rule of the policy ever has a value for an object of deployments.apps, so that the policy neither places nor denies it: input.spec.containers`}},
		"PodPathInOneRule": {rego: `errors contains "x" if input.spec.containers[0].image == "x"
warnings contains "x" if input.metadata.labels.a`, matched: []string{"pods", "deployments"}},
		"PodPathByKind":    {rego: `errors contains "x" if { input.kind == "Pod"; input.spec.containers[0].image == "x" }`, matched: []string{"pods", "deployments"}},
		"PodPathByVersion": {rego: `errors contains "x" if { input.apiVersion == "v1"; input.spec.containers[0].image == "x" }`, matched: []string{"pods", "deployments"}},
		"PodPathByImport": {rego: `import input.kind
errors contains "x" if { kind == "Pod"; input.spec.containers[0].image == "x" }`, matched: []string{"pods", "deployments"}},
		"PodPathByFunction": {rego: `is_pod(o) if o.kind == "Pod"
errors contains "x" if { is_pod(input); input.spec.containers[0].image == "x" }`, matched: []string{"pods", "deployments"}},
		"PodPathByKey": {rego: `errors contains "x" if { some k in ["kind"]; input[k] == "Pod"; input.spec.containers[0].image == "x" }`, matched: []string{"pods", "deployments"}},
		"PodPathWithDefault": {rego: `default annotations := {}
annotations := {"a": input.spec.containers[0].image}`, matched: []string{"pods", "deployments"}},
		"PodPathEither": {rego: `containers := input.spec.containers
containers := input.spec.template.spec.containers
errors contains "x" if endswith(containers[0].image, ":latest")`,
			matched: []string{"pods", "deployments"}},
		"NothingOfAnyKind": {rego: `errors contains "x" if { input.spec.containers[0].image == "x"; input.spec.replicas > 1 }`, matched: []string{"pods", "deployments"},
			want: []string{"3:26: no rule of the policy ever has a value for an object of deployments.apps, so that the policy neither places nor denies it: input.spec.containers", "3:65: no rule of the policy ever has a value for an object of pods, so that the policy neither places nor denies it: input.spec.replicas"}},
		"QuantityAndNumber": {rego: `errors contains "x" if { some c in input.spec.template.spec.containers; c.resources.limits.cpu > 4 }`,
			want: []string{`3:73: c.resources.limits.cpu > 4 compares a quantity with a number: the result is the same for every amount, since quantities are text; use k8s.quantity.compare(x, y) > 0`}},
		"QuantityAndText":   {rego: `errors contains "x" if input.spec.template.spec.overhead.memory <= "1Gi"`, want: []string{`3:24: input.spec.template.spec.overhead.memory <= "1Gi" compares quantities as text, in which "9" is greater than "10"; use k8s.quantity.compare(x, y) <= 0`}},
		"QuantitiesOfQuota": {rego: `annotations["a"] := "b" if { q := data.berth.quotas[input.metadata.namespace].gold; q.used.pods >= q.hard.pods }`, want: []string{"q.used.pods >= q.hard.pods compares quantities as text"}},
		"QuantitiesInTerm":  {rego: `annotations["a"] := q.used.pods < q.hard.pods if q := data.berth.quotas.shop.gold`, want: []string{"compares quantities as text"}},
		"QuantityOfHelper": {rego: `used := data.berth.quotas.shop.gold.used
warnings contains "x" if used[_] > "0"`, want: []string{"compares quantities as text"}},
		"QuantityOfAnyQuota": {rego: `warnings contains "x" if { some q in data.berth.quotas.shop; some name, amount in q.used; amount > q.hard[name] }`, want: []string{"amount > q.hard[name] compares quantities as text"}},
		"QuantityAndUnknown": {rego: `warnings contains "x" if data.berth.quotas.shop.gold.used.pods > object.get(input.metadata.labels, "a", "1")`, want: []string{"compares quantities as text"}},
		"QuantityOfOneKind": {rego: `warnings contains "x" if input.spec.overhead.cpu > 4
labels["a"] := "b"`, matched: []string{"deployments", "pods"}, want: []string{"input.spec.overhead.cpu > 4 compares a quantity with a number"}},
		"QuantityByKind": {rego: `warnings contains "x" if { input.kind == "Pod"; input.spec.overhead.cpu > 4 }`, matched: []string{"deployments", "pods"}},
		"QuantitiesEqual": {rego: `warnings contains "x" if { q := data.berth.quotas.shop.gold; q.used.pods == q.hard.pods }
warnings contains "y" if input.spec.template.spec.overhead.cpu != "1"`},
		"QuantitiesParsed": {rego: `warnings contains "x" if units.parse(input.spec.template.spec.overhead.cpu) > 4
warnings contains "x" if units.parse_bytes(input.spec.template.spec.overhead.memory) > 4
warnings contains "x" if to_number(data.berth.quotas.shop.gold.used.pods) >= 4
warnings contains "x" if { q := data.berth.quotas.shop.gold; k8s.quantity.compare(q.used.pods, q.hard.pods) >= 0 }`},
		"MaxOfQuantities": {rego: `most := max({c.allocatable.cpu | some c in data.clusters})
clusters contains name if { some name, c in data.clusters; c.allocatable.cpu == most }`,
			want: []string{`max({c.allocatable.cpu | some c in data.clusters}) compares quantities as text, in which "9" is greater than "10"; convert each to a number by units.parse(x)`}},
		"MinInBody":   {rego: `clusters contains name if { some name, c in data.clusters; c.allocatable.memory == min([x.allocatable.memory | some x in data.clusters]) }`, want: []string{"compares quantities as text"}},
		"MaxOfArrays": {rego: `clusters contains last if { last := max({[c.allocatable.cpu, name] | some name, c in data.clusters})[1] }`, want: []string{"compares quantities as text"}},
		"FirstOfSorted": {rego: `ordered := sort([[c.allocatable.cpu, name] | some name, c in data.clusters])
clusters contains ordered[count(ordered) - 1][1]`, want: []string{"compares quantities as text"}},
		"FirstAtOnce": {rego: `warnings contains sort({c.allocatable.cpu | some c in data.clusters})[0]`, want: []string{"compares quantities as text"}},
		"MaxIsCompared": {rego: `clusters contains name if { some name, c in data.clusters; max([x.allocatable.cpu | some x in data.clusters]) <= "8" }`,
			want: []string{"max([x.allocatable.cpu | some x in data.clusters]) compares quantities as text"}},
		"MaxOfNumbers": {rego: `warnings contains "x" if { some c in data.clusters; max([1, 2]) <= c.allocatable.cpu }`, want: []string{"max([1, 2]) <= c.allocatable.cpu compares quantities as text"}},
		"SortedList":   {rego: `warnings contains concat(", ", sort({c.allocatable.cpu | some c in data.clusters}))`},
		"MaxOfParsed": {rego: `most := max({units.parse(c.allocatable.cpu) | some c in data.clusters})
clusters contains name if { some name, c in data.clusters; units.parse(c.allocatable.cpu) == most }`},
		"MinOfNames":       {rego: `clusters contains min({name | some name, c in data.clusters; c.allocatable.cpu != "1"})`},
		"MinOfPairs":       {rego: `clusters contains min({[name, c.allocatable.cpu] | some name, c in data.clusters})[0]`},
		"QuantitiesByType": {rego: `warnings contains "x" if { q := input.spec.template.spec.overhead.cpu; is_number(q); q > 4 }`},
		"NoneOfSeveral":    {rego: `annotations["a"] := input.spec.volumeClaimTemplate`, matched: []string{"deployments", "statefulsets"}, want: []string{"did you mean input.spec.volumeClaimTemplates?"}, impossible: []string{"annotations"}},
		"PartialObject":    {rego: `errors contains "x" if input.spec.strategy == {"type": "Recreate"}`},
		"EmptyObject":      {rego: `errors contains "x" if input.spec.template.spec.affinity == {}`},
		"PartialMember":    {rego: `errors contains "x" if not {"key": "a", "operator": "Exists"} in input.spec.template.spec.tolerations`},
		"IntOrString": {rego: `errors contains "x" if input.spec.strategy.rollingUpdate.maxSurge == "25%"
errors contains "y" if input.spec.strategy.rollingUpdate.maxSurge > 1`},
		"NotNull": {rego: `errors contains "x" if input.spec.template.spec.nodeName != null`},
		"ReplacedInput": {rego: `ok if input.spec.replicas == 1
errors contains "x" if ok with input as {"spec": {"replicas": 2}}
errors contains "y" if ok with input.spec.replicas as 3
errors contains "z" if input.spec.replicas == "x" with input.spec.replicas as "x"`},
		"ReplacedData": {rego: `ok if data.kubernetes.nodes.n1.metadata.labels.a
errors contains "x" if ok with data.kubernetes.nodes.n1 as input.metadata
errors contains "y" if ok with data.kubernetes.nodes as {}
labels["a"] := input.metadata.lables.x`, want: []string{"6:16: input.metadata.lables.x is undefined"}, impossible: []string{"labels"}},
		"Unknown": {rego: `errors contains "x" if object.get(input.spec, "x", null) == null`},
		"V0": {rego: `import input.spec as s
errors[msg] { s.replcas > 3; msg := "x" }`, v0: true, want: []string{"4:15: input.spec.replcas is undefined: input.spec has no field \"replcas\"; did you mean input.spec.replicas?"}, impossible: []string{"errors"}},
		"OneBodyOfTwo": {rego: `errors contains "x" if input.spec.replcas > 3
errors contains "y" if input.spec.replicas > 3`, want: []string{"3:24"}},
		"Helper": {rego: `tier := input.metadata.labls.tier
errors contains "x" if tier == "gold"
warnings contains "y" if not tier`, want: []string{"3:9"}, impossible: []string{"errors"}},
		"Comprehension": {rego: `errors contains "x" if count([1 | input.spec.replcas]) == 0`, want: []string{"input.spec.replcas"}},
		"Default": {rego: `default annotations := {}
annotations := input.metadata.anotations`, want: []string{"did you mean input.metadata.annotations?"}},
		"AnyObject": {rego: `annotations["a"] := input.spec.foo.bar
labels["a"] := input.metadata.lables.x`, matched: []string{}, want: []string{"did you mean input.metadata.labels.x?"}, impossible: []string{"labels"}},
		"ManagedFields": {rego: `annotations["a"] := input.metadata.managedFields[0].manager`, want: []string{`input.metadata has no field "managedFields"`}, impossible: []string{"annotations"}},
		"OldLayout":     {rego: `annotations["a"] = x { x := data.io.k8s.x }`, v0: true, want: []string{"3:29: the policy reads data.io, which spec.data does not have; Berth keeps clusters at data.clusters[name]"}, impossible: []string{"annotations"}},
		"OldLayoutOfHelper": {rego: `annotations["a"] = zone { input.metadata.name }
zone = data.io.zone { true }`, v0: true, want: []string{"4:8: the policy reads data.io"}, impossible: []string{"annotations"}},
		"OldLayoutInArray": {rego: `annotations["a"] = x { x := [z | z := data.io.zones[_]] }`, v0: true, want: []string{"the policy reads data.io"}},
		"NoSuchData":       {rego: `labels["a"] := data.zones[input.metadata.namespace]`, data: `{"zone": {"a": "b"}}`, want: []string{"3:16: the policy reads data.zones, which spec.data does not have"}, impossible: []string{"labels"}},
		"NoSuchDataOrElse": {rego: `labels["a"] := data.zone if {
	input.metadata.name
} else := "b"`, want: []string{"3:16: the policy reads data.zone"}},
		"NoSuchDataUnderNot": {rego: `errors contains "x" if not data.closed`, want: []string{"3:28: the policy reads data.closed"}},
		"KeyIn":              {rego: `errors contains "x" if not "team" in input.metadata.labels`, want: []string{`3:24: "team" in input.metadata.labels looks for a value of the object, not for a key; did you mean input.metadata.labels.team, or "team" in object.keys(input.metadata.labels)?`}},
		"KeyInSelector":      {rego: `errors contains "x" if "example.com/disk" in input.spec.template.spec.nodeSelector`, want: []string{`did you mean input.spec.template.spec.nodeSelector["example.com/disk"], or`}},
		"KeyInVariable": {rego: `errors contains "x" if {
	labels := input.metadata.labels
	not "team" in labels
}`, want: []string{`did you mean input.metadata.labels.team, or`}},
		"KeyInMember":        {rego: `warnings contains "x" if { some c in data.clusters; "pci" in c.labels }`, want: []string{`did you mean c.labels.pci, or`}},
		"KeyInQuantities":    {rego: `warnings contains "x" if { some c in input.spec.template.spec.containers; not "memory" in c.resources.limits }`, want: []string{`did you mean c.resources.limits.memory, or`}},
		"KeyInComprehension": {rego: `warnings contains "x" if count([1 | "a" in input.metadata.labels]) == 0`, want: []string{"did you mean input.metadata.labels.a, or"}},
		"KeyInV0": {rego: `import future.keywords.in
errors["x"] { not "team" in input.metadata.labels }`, v0: true, want: []string{"did you mean input.metadata.labels.team, or"}},
		"ClusterIn":         {rego: `errors contains "x" if not "eu-1" in data.clusters`, want: []string{`looks for a value of the object, not for a key; did you mean data.clusters["eu-1"], or "eu-1" in object.keys(data.clusters)?`}},
		"NameInClusters":    {rego: `errors contains "x" if input.metadata.labels.cluster in data.clusters`, want: []string{`did you mean in object.keys(data.clusters)?`}, impossible: []string{"errors"}},
		"ValueIn":           {rego: `errors contains "x" if { some _, "team" in input.metadata.labels; input.metadata.namespace in {"a", "b"} }`},
		"ValueOfLabel":      {rego: `errors contains "x" if input.metadata.name in input.metadata.labels`},
		"KeyInKeys":         {rego: `errors contains "x" if not "team" in object.keys(input.metadata.labels)`},
		"ValueInOwnTable":   {rego: `errors contains "x" if "eu" in data.regions`, data: `{"regions":{"shop":"eu"}}`},
		"ValueInEmptyTable": {rego: `errors contains "x" if "eu" in data.regions`, data: `{"regions":{}}`},
		"ValueInHelper": {rego: `team_of[k] := v if some k, v in input.metadata.labels
errors contains "x" if "payments" in team_of
errors contains "y" if "payments" in {k: v | some k, v in input.metadata.labels}`},
		"MemberOfArray":    {rego: `errors contains "x" if "a" in input.metadata.finalizers`},
		"MemberOfAnything": {rego: `errors contains "x" if "a" in data.clusters.eu.taints[0]`},
		"MemberOfText":     {rego: `errors contains "x" if "eu" in input.metadata.annotations.regions`, want: []string{`3:24: "eu" in input.metadata.annotations.regions is never true: the operator in looks at the members of an array, a set, or an object, and input.metadata.annotations.regions is a string; use contains(text, part), or split the text first, as in split(input.metadata.annotations.regions, ",")`}, impossible: []string{"errors"}},
		"MemberOfOwnText":  {rego: `clusters contains name if { some name, c in data.clusters; c.region in data.allowed }`, data: `{"allowed": "eu,us"}`, want: []string{`c.region in data.allowed is never true`}, impossible: []string{"clusters"}},
		"MemberOfNumber": {rego: `errors contains "x" if 1 in input.spec.replicas
errors contains "y" if input.spec.paused`, want: []string{`and input.spec.replicas is a number`}},
		"MemberOfTextOrArray": {rego: `zones := input.metadata.annotations.zones
zones := ["a"] if not input.metadata.annotations
errors contains "x" if "a" in zones`},
		"MemberOfOneKind": {rego: `errors contains "x" if "a" in input.spec.nodeName
errors contains "y" if not input.metadata.labels.a`, matched: []string{"pods", "nodes"}},
		"ClusterAsName":  {rego: `clusters contains c if { some c in data.clusters; c.region == "eu"; c.ready }`, want: []string{`3:1: clusters must hold strings, holds an object; write: clusters := {"<cluster>"} if { ... }; a cluster's name is its key, as in some name, cluster in data.clusters`}, impossible: []string{"clusters"}},
		"ClustersAsList": {rego: `clusters := [c | some c in data.clusters; c.ready]`, want: []string{`3:1: clusters must hold strings, holds an object`}, impossible: []string{"clusters"}},
		"ClustersAsText": {rego: `clusters := input.metadata.annotations["example.com/clusters"]`, want: []string{`3:1: clusters must be a set or an array of strings, or an object, is a string`}, impossible: []string{"clusters"}},
		"ContainerAsError": {rego: `errors contains c if { some c in input.spec.template.spec.containers; not c.resources.limits.memory }
errors contains "x" if not input.metadata.labels.team`, want: []string{`3:1: errors must hold strings, holds an object`}},
		"MetadataAsLabels": {rego: `labels := input.metadata`, want: []string{`labels: key "annotations": must be a string, is an object`}, impossible: []string{"labels"}},
		"ReplicasAsLabel":  {rego: `labels["a"] := input.spec.replicas`, want: []string{`3:1: labels`}, impossible: []string{"labels"}},
		"LabelsAsLabels": {rego: `labels := input.spec.selector.matchLabels
annotations := input.metadata.annotations`},
		"SchedulingCopied": {rego: `scheduling.tolerations := input.spec.template.spec.tolerations
scheduling.affinity := input.spec.template.spec.affinity
scheduling.nodeSelector := input.spec.template.spec.nodeSelector`},
		"SchedulingWhole": {rego: `scheduling := input.spec.template.spec.tolerations`, want: []string{"scheduling must be an object, is an array"}, impossible: []string{"scheduling"}},
		"ClustersOfAnything": {rego: `clusters contains x if some x in data.clusters.eu.zones
errors contains input.spec.template.spec.overhead.cpu`},
		"TextOrObject": {rego: `text := input.metadata.name
text := input.metadata if not input.metadata.name
errors contains text`},
		"NearRule": {rego: `labels["a"] := "b"
deny contains "no" if input.metadata.name == "x"`, want: []string{"4:1: the rule deny decides nothing"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := placementv1.PlacementPolicySpec{Rego: header + tc.rego, RegoVersion: placementv1.RegoV1}
			if tc.v0 {
				spec.RegoVersion = placementv1.RegoV0
			}
			if tc.data != "" {
				spec.Data = &apiextensionsv1.JSON{Raw: []byte(tc.data)}
			}
			if tc.matched == nil {
				tc.matched = []string{"deployments"}
			}
			in := input(t, spec, tc.matched...)
			if len(in.Kinds) == 0 {
				in.Kinds = []typecheck.Kind{{Type: typecheck.AnyObject}}
			}
			result := typecheck.Check(in)
			got := texts(result)
			if len(got) != len(tc.want) || result.Total != len(got) {
				t.Fatalf("findings %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("finding %q, want it to have %q", got[i], want)
				}
			}
			if diff := cmp.Diff(tc.impossible, result.Impossible); diff != "" {
				t.Errorf("impossible rules (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTooMuchWork checks policies whose types are small without the schemas of objects, and take hours to check with them.
func TestTooMuchWork(t *testing.T) {
	for _, other := range []string{
		"data.kubernetes.deployments.shop.web.spec.template.spec",
		"data.kubernetes.deployments.shop[input.metadata.name].spec.template.spec",
		"v if some v in [d.spec.template.spec | some d in data.kubernetes.deployments.shop]",
	} {
		for _, n := range []int{4, 7, 10} {
			var text strings.Builder
			text.WriteString(`package p

a0 := input.spec.template.spec
b0 := ` + other + "\n")
			for i := range n {
				fmt.Fprintf(&text, `a%d := [a%d, a%d]
b%d := [b%d, b%d]
`, i+1, i, i, i+1, i, i)
			}
			fmt.Fprintf(&text, `warnings contains "differs" if a%d != b%d
annotations["a"] := input.metadata.lables.tier
`, n, n)
			spec := placementv1.PlacementPolicySpec{RegoVersion: placementv1.RegoV1, Rego: text.String()}
			if _, err := policy.Compile("p", spec); err != nil {
				t.Errorf("%s, %d steps: %v", other, n, err)
			}
			result := typecheck.Check(input(t, spec, "deployments"))
			if !strings.Contains(result.Unchecked, "berth_size_error") || len(result.Findings) > 0 {
				t.Errorf("%s, %d steps: unchecked %q, findings %q", other, n, result.Unchecked, texts(result))
			}
		}
	}
}

// TestQuantitiesOfCustomResources checks that a custom resource's field is a quantity if it has the schema that
// controller-gen writes for quantities.
func TestQuantitiesOfCustomResources(t *testing.T) {
	const pattern = `^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$`
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	parsed, err := typecheck.ParseOpenAPI(gv, []byte(`{"components": {"schemas": {"com.example.v1.Cache": {
		"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Cache"}],
		"properties": {"spec": {"type": "object", "properties": {
			"port": {"x-kubernetes-int-or-string": true},
			"size": {"x-kubernetes-int-or-string": true, "pattern": "`+pattern+`"}}}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	in := input(t, placementv1.PlacementPolicySpec{RegoVersion: placementv1.RegoV1, Rego: `package p

warnings contains "x" if input.spec.port > 1024

warnings contains "y" if input.spec.size > 1024
`})
	in.Kinds = []typecheck.Kind{{Resource: schema.GroupResource{Group: "example.com", Resource: "caches"}, Type: parsed["Cache"]}}
	if got := texts(typecheck.Check(in)); len(got) != 1 || !strings.Contains(got[0], "input.spec.size > 1024 compares a quantity with a number") {
		t.Errorf("findings %q", got)
	}
}

// TestVersionsOfOneType checks that there is no finding for a type if the policy can produce a result for one of its
// versions.
func TestVersionsOfOneType(t *testing.T) {
	in := input(t, placementv1.PlacementPolicySpec{RegoVersion: placementv1.RegoV1, Rego: `package p

labels["a"] := input.spec.nodeName`})
	resource := schema.GroupResource{Group: "example.com", Resource: "things"}
	pod, deployment := typeOf(cluster["pods"]), typeOf(cluster["deployments"])
	in.Kinds = []typecheck.Kind{{Resource: resource, Type: deployment}, {Resource: resource, Type: pod}}
	if got := texts(typecheck.Check(in)); len(got) > 0 {
		t.Errorf("findings %q", got)
	}
	in.Kinds = append(in.Kinds, typecheck.Kind{Resource: schema.GroupResource{Resource: "others"}, Type: deployment})
	if got := texts(typecheck.Check(in)); len(got) != 1 || !strings.Contains(got[0], "ever has a value for an object of others, so that the policy neither places nor denies it: input.spec.nodeName") {
		t.Errorf("findings %q", got)
	}
}
