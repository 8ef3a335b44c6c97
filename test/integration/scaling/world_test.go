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

package scaling_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/framework"
)

const (
	// perNamespace is how many workloads a namespace has, if there are not more policies than that makes namespaces.
	perNamespace = 1000
	// perZone is how many clusters a zone has. Each workload is placed on the clusters of the zone that its policy names.
	perZone = 5
	// pilots is how many workloads are placed on the pilot clusters instead, which are the first pilotClusters.
	pilots, pilotClusters = 1000, 3
	// levels is how many different values there are of the label of workloads that policies read.
	levels = 40
	// clients is how many requests are made at once.
	clients = 16
)

// world is a control plane with clusters, policies, and workloads that are placed already.
type world struct {
	size
	f          *framework.Framework
	commands   *framework.Commands
	namespaces []string
}

// fill starts a control plane, and creates everything in it. The spec's end stops it.
func fill(ctx context.Context, s size) *world {
	GinkgoHelper()
	const storeLimit = 8 << 30
	w := &world{size: s, f: framework.Start(ctx, func(o *controlplane.Options) {
		o.EtcdFlags = map[string]string{"quota-backend-bytes": fmt.Sprint(storeLimit)}
	})}
	DeferCleanup(w.f.Stop)
	w.f.InstallClusterProfiles(ctx)
	w.commands = w.f.NewCommands(ctx)
	if limit := os.Getenv("BERTH_MEMORY"); limit != "" {
		GinkgoT().Setenv("GOMEMLIMIT", limit)
	}
	for i := range max(s.policies, s.workloads/perNamespace) {
		w.namespaces = append(w.namespaces, fmt.Sprintf("team-%d", i))
	}
	var group errgroup.Group
	group.SetLimit(clients)
	for i := range s.clusters {
		group.Go(func() error { return w.f.Client.Create(ctx, w.cluster(i)) })
	}
	for i, name := range w.namespaces {
		labels := map[string]string{"policy": policyName(i % s.policies)}
		group.Go(func() error {
			return w.f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
		})
	}
	for i := range s.policies {
		p := w.policy(i)
		group.Go(func() error { return w.f.Client.Create(ctx, p) })
	}
	Expect(group.Wait()).To(Succeed())
	w.store(ctx, w.samples(ctx))
	return w
}

// startReplica starts a replica that may lead, and waits until it is Ready. The API server calls the one that leads.
func (w *world) startReplica(ctx context.Context) *framework.Command {
	GinkgoHelper()
	c := w.commands.StartReady(ctx, "", "--leader-elect")
	DeferCleanup(func() error { return c.Stop(time.Minute) })
	return c
}

func policyName(i int) string { return fmt.Sprintf("policy-%d", i) }

// zones returns the number of zones.
func (w *world) zones() int { return max(1, w.clusters/perZone) }

// cluster returns the cluster with a number.
func (w *world) cluster(i int) *unstructured.Unstructured {
	out := framework.NewObject(framework.ClusterProfile, metav1.NamespaceDefault, fmt.Sprintf("c%d", i), nil)
	out.SetLabels(map[string]string{
		"zone": fmt.Sprintf("z%d", i%w.zones()), "pilot": fmt.Sprint(i < pilotClusters), "tier": "a", "level": fmt.Sprint(levels),
	})
	return out
}

// policy returns the policy with a number.
func (w *world) policy(i int) *placementv1.PlacementPolicy {
	GinkgoHelper()
	p := framework.NewPolicy(policyName(i), "", "apps", "deployments")
	p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"policy": p.Name}}
	Expect(json.Unmarshal(fmt.Appendf(nil, `[
		{"name": "pilot", "when": {"objectSelector": {"matchLabels": {"pilot": "true"}}}, "require": [{"label": "pilot", "operator": "In", "values": ["true"]}]},
		{"name": "zone-of-%d", "require": [
			{"label": "zone", "operator": "In", "values": ["z%d"]},
			{"label": "tier", "operator": "NotIn", "values": ["closed"]},
			{"label": "level", "operator": "Gte", "valueFrom": {"label": "level", "default": "0"}}]}]`, i, i%w.zones()), &p.Spec.Rules)).To(Succeed())
	return p
}

// workload returns the workload with a number, without its placement.
func (w *world) workload(i int) *appsv1.Deployment {
	GinkgoHelper()
	out := &appsv1.Deployment{}
	obj := framework.NewObject(framework.Deployment, w.namespaces[i%len(w.namespaces)], fmt.Sprintf("app-%d", i), nil)
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, out)).To(Succeed())
	out.Labels = w.labels(i)
	return out
}

// labels returns the labels of the workload with a number. Each namespace has workloads of all levels, if it has enough.
func (w *world) labels(i int) map[string]string {
	return map[string]string{"level": fmt.Sprint(i / len(w.namespaces) % levels), "pilot": fmt.Sprint(i < pilots)}
}

// sample is a workload as the API server stores it after admission.
type sample struct {
	object *appsv1.Deployment
	// entries are what the record of requested values says. It is valid for all workloads of the policy, but with another signature.
	entries json.RawMessage
}

// samples returns two workloads for each policy, by the number of the policy: a pilot and another one. They are deleted again.
func (w *world) samples(ctx context.Context) [][2]sample {
	GinkgoHelper()
	leader := w.startReplica(ctx)
	out := make([][2]sample, w.policies)
	key := w.signingKey(ctx)
	for i := range out {
		w.f.AwaitReady(ctx, policyName(i))
		for j := range out[i] {
			o := w.workload(i)
			o.Labels["pilot"] = fmt.Sprint(j == 0)
			Expect(w.f.Client.Create(ctx, o)).To(Succeed())
			Expect(o.Annotations).To(HaveKey(placementv1.ClustersAnnotation))
			var record struct {
				Annotations json.RawMessage `json:"annotations"`
				Signature   string          `json:"signature"`
			}
			decoder := json.NewDecoder(bytes.NewReader([]byte(o.Annotations[placementv1.RequestedAnnotation])))
			// Records with other members would be signed otherwise.
			decoder.DisallowUnknownFields()
			Expect(decoder.Decode(&record)).To(Succeed())
			Expect(signature(key, o, record.Annotations)).To(Equal(record.Signature))
			Expect(w.f.Client.Delete(ctx, o)).To(Succeed())
			o.ResourceVersion = ""
			out[i][j] = sample{o, record.Annotations}
		}
	}
	Expect(leader.Stop(time.Minute)).To(Succeed())
	return out
}

// signingKey returns the key by which replicas sign records.
func (w *world) signingKey(ctx context.Context) []byte {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(w.f.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "berth-intent-key"}, secret)).To(Succeed())
	return secret.Data["key"]
}

// signature returns the signature of a record with these entries for a workload.
func signature(key []byte, o *appsv1.Deployment, entries json.RawMessage) (string, error) {
	type record struct {
		Annotations json.RawMessage `json:"annotations"`
	}
	text, err := json.Marshal(struct {
		ID     struct{ Group, Kind, Namespace, Name, GenerateName string }
		Record record
	}{struct{ Group, Kind, Namespace, Name, GenerateName string }{appsv1.GroupName, "Deployment", o.Namespace, o.Name, ""}, record{entries}})
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil)), err
}

// stored returns the workload with a number as the API server would store it, placed as a sample of its policy is.
func (w *world) stored(i int, key []byte, samples [][2]sample) (*appsv1.Deployment, error) {
	n := i % len(w.namespaces)
	like := samples[n%w.policies][1]
	if i < pilots {
		like = samples[n%w.policies][0]
	}
	out := *like.object
	out.Namespace, out.Name, out.UID = w.namespaces[n], fmt.Sprintf("app-%d", i), types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
	out.Labels = w.labels(i)
	sum, err := signature(key, &out, like.entries)
	out.Annotations = map[string]string{
		placementv1.ClustersAnnotation:  like.object.Annotations[placementv1.ClustersAnnotation],
		placementv1.RequestedAnnotation: fmt.Sprintf(`{"annotations":%s,"signature":%q}`, like.entries, sum),
	}
	out.SetGroupVersionKind(framework.Deployment)
	return &out, err
}

// store writes the workloads into etcd, which takes a small part of the time of requests, and waits until the API server has them all.
func (w *world) store(ctx context.Context, samples [][2]sample) {
	GinkgoHelper()
	// perTransaction is as many operations as etcd allows in a transaction.
	const perTransaction = 128
	key, serializer := w.signingKey(ctx), protobuf.NewSerializer(w.f.Client.Scheme(), w.f.Client.Scheme())
	var group errgroup.Group
	group.SetLimit(clients / 4)
	for first := 0; first < w.workloads; first += perTransaction {
		group.Go(func() error {
			var puts []put
			for i := first; i < min(first+perTransaction, w.workloads); i++ {
				o, err := w.stored(i, key, samples)
				if err != nil {
					return err
				}
				var encoded bytes.Buffer
				if err := serializer.Encode(o, &encoded); err != nil {
					return err
				}
				puts = append(puts, put{pair{fmt.Appendf(nil, "/registry/deployments/%s/%s", o.Namespace, o.Name), encoded.Bytes()}})
			}
			return w.write(ctx, puts)
		})
	}
	Expect(group.Wait()).To(Succeed())
	Eventually(func(ctx context.Context) (int, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
		err := w.f.Client.List(ctx, list, client.Limit(1))
		return len(list.Items) + int(ptr.Deref(list.RemainingItemCount, 0)), err
	}).WithContext(ctx).WithTimeout(startTimeout).WithPolling(time.Second).Should(Equal(w.workloads))
	awaitIdle(ctx, w.f.Plane.APIServerCPU)
}

// put is an operation of a transaction in the JSON API of etcd, and pair its key and value.
type put struct {
	Pair pair `json:"requestPut"`
}

type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// write makes a transaction in etcd.
func (w *world) write(ctx context.Context, puts []put) error {
	body, err := json.Marshal(map[string]any{"success": puts})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.f.Plane.StoreURL()+"/v3/kv/txn", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("writing into etcd: %s: %s", response.Status, text)
	}
	return err
}
