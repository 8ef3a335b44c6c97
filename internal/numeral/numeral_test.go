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

package numeral_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
)

func TestDigits(t *testing.T) {
	most := numeral.MaxDigits
	for text, want := range map[string]int{
		"":                          0,
		"many":                      0,
		"e999999999":                0,
		"0":                         1,
		"-1.5":                      2,
		".5":                        1,
		"500m":                      3,
		"1E":                        1,
		"1Ei":                       1,
		"2e3":                       4,
		"2e+3":                      4,
		"2E-3":                      4,
		"1e0000000000000000000003":  4,
		"1.7976931348623157e+308":   17 + 308,
		"4.9406564584124654e-324":   17 + 324,
		"1.30.2":                    4,
		"1h30m":                     1,
		"2026-11-28T06:05:16Z":      8,
		"7e2fab":                    3,
		"5Pi":                       1,
		"0x1f":                      3,
		"0x1e-999999999":            1 + 2 + 9,
		"0x1p-99999999":             2 + 999,
		"-0X.fP+000999999":          2 + 999,
		`"0x"1"p"-"999999`:          2 + 999,
		strings.Repeat("1", most):   most,
		strings.Repeat("1", most*9): most + 1,
		"1e-999999999":              1 + 999,
		"1E999999999Ki":             1 + 999,
		`1e"-999"999999`:            1 + 999,
		"1e+-999999999":             1 + 999,
		"1e-000999999999":           1 + 999,
		"1e99999999999999999999999": 1 + 999,
	} {
		if got := numeral.Digits(text); got != want {
			t.Errorf("%.40q has %d digits, want %d", text, got, want)
		}
		if cheap := want <= most; numeral.IsCheap(text) != cheap {
			t.Errorf("%.40q is cheap: %t, want %t", text, !cheap, cheap)
		}
	}
}

// hostile are texts that Kubernetes' parser of quantities reads for minutes or forever, or that are long. Some of them are no quantities.
var hostile = []string{
	"1e-999999999", "1E-999999999", "-1e-999999999", "+.1e-999999999", "1e-0000999999999", "1e-2147483648", "123456789012345678901e2000000000",
	"123456789012345678901e+99999999999999999999", "1.5e-99999999999", strings.Repeat("9", 4096), "0." + strings.Repeat("0", 4096) + "1",
}

func TestQuantity(t *testing.T) {
	for text, want := range map[string]string{"1500m": "1500m", "1e3": "1e3", "1e-9": "1e-9", "1E": "1E", "1Gi": "1Gi", "0.5": "500m"} {
		if got, err := numeral.Quantity(text); err != nil || got.String() != want {
			t.Errorf("%q: %s, %v", text, got.String(), err)
		}
	}
	for _, text := range append(hostile, "", "many", "1e", "1 Gi") {
		if got, err := numeral.Quantity(text); err == nil {
			t.Errorf("%.40q is the quantity %s", text, got.String())
		}
	}
}

// TestFromUnstructured fills every field of types that are read with a hostile text. Where that is a quantity, the error names the
// field; everywhere else the text is converted like any other.
func TestFromUnstructured(t *testing.T) {
	types := []any{
		&corev1.Pod{}, &corev1.PodTemplate{}, &corev1.Node{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{}, &corev1.ResourceQuota{},
		&corev1.ReplicationController{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{},
		&resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimTemplate{}, &resourcev1.ResourceSlice{},
		&placementv1.ScopedQuota{}, &placementv1.ClusterScopedQuota{}, &placementv1.PlacementPolicy{},
	}
	for _, typed := range types {
		to := reflect.TypeOf(typed).Elem()
		t.Run(to.String(), func(t *testing.T) {
			quantities := 0
			for _, leaf := range leaves(to, 12) {
				texts := hostile
				if !leaf.quantity {
					texts = hostile[:1]
				}
				for _, text := range texts {
					err := numeral.FromUnstructured(leaf.holding(text), reflect.New(to).Interface())
					if leaf.quantity {
						quantities++
						if err == nil || !strings.HasPrefix(err.Error(), leaf.String()+": the number has more than ") {
							t.Fatalf("%s = %.40q: %v", leaf, text, err)
						}
					} else if err != nil {
						t.Fatalf("%s = %.40q is no quantity: %v", leaf, text, err)
					}
				}
			}
			if want := to != reflect.TypeFor[corev1.Service]() && to != reflect.TypeFor[placementv1.PlacementPolicy](); want != (quantities > 0) {
				t.Errorf("%d quantities were tried", quantities)
			}
		})
	}
}

// leaf is the path to a text in an object: names of fields, keys of maps, and list, which stands for the only item of a list.
type leaf struct {
	path     []string
	quantity bool
}

const (
	list = "[0]"
	key  = "[key]"
)

func (l leaf) String() string {
	return strings.NewReplacer("."+list, list, "."+key, key).Replace(strings.Join(l.path, "."))
}

// holding returns an object with a text at the path.
func (l leaf) holding(text string) map[string]any {
	var value any = text
	for _, name := range slices.Backward(l.path) {
		switch name {
		case list:
			value = []any{value}
		default:
			value = map[string]any{strings.Trim(name, "[]"): value}
		}
	}
	object, _ := value.(map[string]any)
	return object
}

// leaves returns the texts and quantities in a type, up to a depth.
func leaves(of reflect.Type, depth int) []leaf {
	below := func(name string, of reflect.Type) (out []leaf) {
		for _, l := range leaves(of, depth-1) {
			if name != "" {
				l.path = append([]string{name}, l.path...)
			}
			out = append(out, l)
		}
		return out
	}
	switch {
	case depth == 0:
		return nil
	case of == reflect.TypeFor[resource.Quantity]():
		return []leaf{{quantity: true}}
	}
	switch of.Kind() {
	case reflect.String:
		return []leaf{{}}
	case reflect.Pointer:
		return below("", of.Elem())
	case reflect.Slice:
		if of.Elem().Kind() != reflect.Uint8 {
			return below(list, of.Elem())
		}
	case reflect.Map:
		return below(key, of.Elem())
	case reflect.Struct:
		if reflect.PointerTo(of).Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()) {
			return nil
		}
		var out []leaf
		for f := range of.Fields() {
			if f.IsExported() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				out = append(out, below(name, f.Type)...)
			}
		}
		return out
	}
	return nil
}

// FuzzQuantity searches for texts that pass as cheap, and are not. A text that is not ends the search, since nothing interrupts the parser.
func FuzzQuantity(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := numeral.Quantity(text)
		if err != nil {
			return
		}
		sum := q.DeepCopy()
		sum.Add(q)
		sum.Sub(q)
		if text := sum.String(); len(text) > 2*numeral.MaxDigits {
			t.Errorf("calculating with %s has %d digits", q.String(), len(text))
		}
		if _, err := numeral.Quantity(q.String()); err != nil {
			t.Errorf("%s is written as %s, which is refused: %v", text, q.String(), err)
		}
	})
}
