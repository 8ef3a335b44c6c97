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

package quotadifferential_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
)

// rounds is how many pairs of namespaces are compared. Each has few steps, since the histories of failures are long.
var rounds = budget.Rounds(5)

const (
	// steps is how many steps a round has.
	steps = 25
	// earlyRounds are those without custom objects: kube-controller-manager needs time to see that there are some.
	earlyRounds = 2
	// enoughRounds is how many rounds reach enough verdicts of each kind.
	enoughRounds = 10
)

// figures say what the rounds covered.
type figures struct {
	// verdicts by kind of step.
	verdicts map[string]map[string]int
	// nudges is how often kube-controller-manager had to be made to count, again how often its API server refused on
	// account of a status that was not the newest.
	nudges, again int
}

func (f *figures) count(kind, verdict string) {
	if f.verdicts[kind] == nil {
		f.verdicts[kind] = map[string]int{}
	}
	f.verdicts[kind][verdict]++
}

// total returns how many steps had a verdict.
func (f *figures) total(verdict string) int {
	n := 0
	for _, verdicts := range f.verdicts {
		n += verdicts[verdict]
	}
	return n
}

// round is one pair of namespaces with their quotas and what happens there.
type round struct {
	number     int
	rng        *rand.Rand
	families   []family
	twins      []*twin
	core, ours string
	items      []*item
	// made counts the objects that were tried, for their names.
	made    int
	history []string
	figures *figures
}

func (r *round) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, round %d; ResourceQuotas in %s, ScopedQuotas in %s:\n", GinkgoRandomSeed(), r.number, r.core, r.ours)
	for _, t := range r.twins {
		b.WriteString(t.String())
	}
	for i, s := range r.history {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s)
	}
	return b.String()
}

// verdict is what became of a request.
type verdict struct {
	// class is "admitted", "denied" by a quota, or the API server's reason.
	class string
	// words are the quota's.
	words string
}

var quotaWords = regexp.MustCompile(`(exceeded quota|failed quota|status unknown for quota|insufficient quota).*`)

func verdictOf(err error) verdict {
	if err == nil {
		return verdict{class: "admitted"}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return verdict{class: err.Error()}
	}
	if words := quotaWords.FindString(err.Error()); words != "" && apierrors.IsForbidden(err) {
		return verdict{class: "denied", words: words}
	}
	return verdict{class: string(status.Status().Reason), words: err.Error()}
}

// agrees reports whether two verdicts are one: of several quotas that deny, ours names all, and upstream the first.
func (v verdict) agrees(ours verdict) bool {
	return v.class == ours.class && (v.class != "denied" || strings.Contains(plain(ours.words), plain(v.words)))
}

var amount = regexp.MustCompile(`=[^,; ]+`)

// plain has every amount in one form: which one upstream shows depends on how it came to the sum.
func plain(words string) string {
	return amount.ReplaceAllStringFunc(words, func(text string) string {
		q, err := resource.ParseQuantity(text[1:])
		if err != nil {
			return text
		}
		return "=" + q.AsDec().String()
	})
}

var deniedBy = regexp.MustCompile(`^exceeded quota: ([^,]+), .*used: (.*), limited: (.*)$`)

// lags reports whether a denial is on account of another status than the newest, which the admission plugin may not
// have seen yet.
func (r *round) lags(v verdict) bool {
	parts := deniedBy.FindStringSubmatch(v.words)
	if parts == nil {
		return false
	}
	i := slices.IndexFunc(r.twins, func(t *twin) bool { return t.name == parts[1] })
	return i >= 0 && (!quotes(parts[2], r.twins[i].used) || !quotes(parts[3], r.twins[i].hard))
}

// quotes reports whether a list as in "pods=1,cpu=2" is right.
func quotes(text string, list corev1.ResourceList) bool {
	for part := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(part, "=")
		want := list[corev1.ResourceName(name)]
		if got, err := resource.ParseQuantity(amount); err != nil || got.Cmp(want) != 0 {
			return false
		}
	}
	return true
}

// step does one step in both namespaces and compares.
func (r *round) step(ctx context.Context, s step) {
	GinkgoHelper()
	r.history = append(r.history, s.String())
	theirs := verdictOf(s.do(ctx, r.core))
	for range patience {
		if theirs.class != "denied" || !r.lags(theirs) {
			break
		}
		r.figures.again++
		theirs = verdictOf(s.do(ctx, r.core))
	}
	ours := verdictOf(s.do(ctx, r.ours))
	r.history[len(r.history)-1] += fmt.Sprintf("\n     ResourceQuota: %s %s\n     ScopedQuota:   %s %s", theirs.class, theirs.words, ours.class, ours.words)
	// A ScopedQuota does not charge an object again that it charged just now under the same name.
	shared := s.taken && theirs.class == "denied" && ours.class == string(metav1.StatusReasonAlreadyExists)
	Expect(shared || theirs.agrees(ours)).To(BeTrue(), "the verdicts differ\n%s", r)
	r.figures.count(s.kind, theirs.class)
	if s.charged && ours.class != string(metav1.StatusReasonAlreadyExists) {
		Expect(r.charged(ctx)).To(Succeed(), r.String)
	}
	if theirs.class == "admitted" && s.admitted != nil {
		s.admitted()
	}
	r.settle(ctx)
}

// generateFamilies returns two families that are not the same, of which the second may be missing.
func generateFamilies(rng *rand.Rand, custom bool) []family {
	all := []family{podFamily, podFamily, podFamily, podFamily, claimFamily, claimFamily, deviceFamily, deviceFamily, serviceFamily, objectFamily}
	if custom {
		all = append(all, widgetFamily)
	}
	return slices.Compact([]family{pick(rng, all), pick(rng, all)})
}

var _ = Describe("A ScopedQuota and a ResourceQuota", Ordered, func() {
	covered := &figures{verdicts: map[string]map[string]int{}}

	for number := range rounds {
		It(fmt.Sprintf("agree in round %d", number), func(ctx SpecContext) {
			if number >= earlyRounds {
				awaitCustomCounts(ctx)
			}
			rng := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(number)))
			r := &round{number: number, rng: rng, families: generateFamilies(rng, number >= earlyRounds), core: newNamespace(ctx), ours: newNamespace(ctx), figures: covered}
			r.twins = generateTwins(rng, r.families)
			for _, t := range r.twins {
				t.create(ctx, r.core, r.ours)
			}
			r.settle(ctx)
			for range steps {
				r.step(ctx, r.next())
			}
			r.leave(ctx)
		})
	}

	AfterAll(func() {
		AddReportEntry("what was covered", covered.String())
		drift, err := operator.Series("berth_quota_drift_total")
		Expect(err).NotTo(HaveOccurred())
		Expect(drift).To(BeEmpty(), "usage was corrected that nothing had changed")
		if rounds >= enoughRounds && !CurrentSpecReport().Failed() {
			Expect(covered.total("denied")).To(BeNumerically(">", rounds*steps/20), covered.String)
			Expect(covered.total("admitted")).To(BeNumerically(">", rounds*steps/4), covered.String)
		}
	})
})

func (f *figures) String() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(f.verdicts)) {
		fmt.Fprintf(&b, "%s: %v\n", kind, f.verdicts[kind])
	}
	fmt.Fprintf(&b, "%d admitted, %d denied; kube-controller-manager nudged %d times, the admission plugin asked again %d times\n",
		f.total("admitted"), f.total("denied"), f.nudges, f.again)
	return b.String()
}

// leave checks that no charge is left open, and gives back what namespaces share.
func (r *round) leave(ctx context.Context) {
	GinkgoHelper()
	for _, t := range r.twins {
		q := t.ours(r.ours)
		Eventually(func(ctx context.Context) (int, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
			return len(q.Status.Reservations), err
		}).WithContext(ctx).Should(BeZero(), r.String)
	}
	for _, namespace := range []string{r.core, r.ours} {
		Expect(f.Client.DeleteAllOf(ctx, &corev1.Service{}, client.InNamespace(namespace))).To(Succeed())
	}
}

// awaitCustomCounts waits until kube-controller-manager counts custom objects.
func awaitCustomCounts(ctx context.Context) {
	GinkgoHelper()
	const name corev1.ResourceName = "count/widgets.example.com"
	t := &twin{name: "widgets", hard: corev1.ResourceList{name: resource.MustParse("1")}}
	Expect(client.IgnoreAlreadyExists(f.Client.Create(ctx, t.core(metav1.NamespaceDefault)))).To(Succeed())
	Eventually(func(ctx context.Context) (corev1.ResourceList, error) {
		// What it did not know when the quota came it does not count before the quota changes.
		t.nudges++
		q := t.core(metav1.NamespaceDefault)
		if err := t.apply(ctx, q); err != nil {
			return nil, err
		}
		return q.Status.Used, nil
	}).WithContext(ctx).WithTimeout(customCounts).WithPolling(framework.Interval).Should(HaveKey(name))
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}
