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

package language

import (
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// allowedBuiltins is the allow-list of Rego's builtin functions. It omits functions that reach outside the policy's
// input and data or differ between two evaluations (http.send, net.lookup_ip_addr, opa.runtime, rand.intn, time.now_ns,
// uuid.rfc4122, rego.parse_module, providers.*, signing and decoding-with-time JWT functions, schema functions that
// fetch). It also omits functions that run long on small operands without checking the deadline (bits.lsh, graph.*,
// net.cidr_expand, and strings.render_template, whose templates may nest loops). The engine limits the operands of the
// functions in the list.
var allowedBuiltins = strings.Fields(`
abs all and any array.concat array.flatten array.reverse array.slice assign
base64.decode base64.encode base64.is_valid base64url.decode base64url.encode base64url.encode_no_pad
bits.and bits.negate bits.or bits.rsh bits.xor
cast_array cast_boolean cast_null cast_object cast_set cast_string ceil concat contains count
crypto.hmac.equal crypto.hmac.md5 crypto.hmac.sha1 crypto.hmac.sha256 crypto.hmac.sha512 crypto.md5 crypto.sha1 crypto.sha256
div endswith eq equal floor format_int glob.match glob.quote_meta gt gte hex.decode hex.encode
indexof indexof_n internal.member_2 internal.member_3 internal.print internal.template_string intersection
is_array is_boolean is_null is_number is_object is_set is_string
json.filter json.is_valid json.marshal json.marshal_with_options json.patch json.remove json.unmarshal
lower lt lte max min minus mul neq
net.cidr_contains net.cidr_contains_matches net.cidr_intersects net.cidr_is_valid net.cidr_merge net.cidr_overlap
numbers.range numbers.range_step
object.filter object.get object.keys object.remove object.subset object.union object.union_n or plus print product
re_match regex.find_all_string_submatch_n regex.find_n regex.globs_match regex.is_valid regex.match regex.replace
regex.split regex.template_match rego.metadata.chain rego.metadata.rule rem replace round
semver.compare semver.is_valid set_diff sort split sprintf startswith
strings.any_prefix_match strings.any_suffix_match strings.count strings.replace_n
strings.reverse strings.split_n substring sum
time.add_date time.clock time.date time.diff time.format time.parse_duration_ns time.parse_ns
time.parse_rfc3339_ns time.weekday to_number trace trim trim_left trim_prefix trim_right trim_space trim_suffix type_name
union units.parse units.parse_bytes upper uri.is_valid uri.parse
urlquery.decode urlquery.decode_object urlquery.encode urlquery.encode_object uuid.parse
walk yaml.is_valid yaml.marshal yaml.unmarshal
`)

// restricted returns the capabilities of a Rego version with the builtin functions that policies may call, and without network access.
func restricted(version ast.RegoVersion) *ast.Capabilities {
	capabilities := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(version))
	capabilities.Builtins = slices.DeleteFunc(slices.Clone(capabilities.Builtins), func(b *ast.Builtin) bool {
		return !slices.Contains(allowedBuiltins, b.Name)
	})
	capabilities.Builtins = append(capabilities.Builtins, ownBuiltins...)
	capabilities.AllowNet = []string{}
	return capabilities
}

var (
	capabilitiesV0 = sync.OnceValue(func() *ast.Capabilities { return restricted(ast.RegoV0) })
	capabilitiesV1 = sync.OnceValue(func() *ast.Capabilities { return restricted(ast.RegoV1) })
)

// Of returns OPA's version of Rego for v, which is v1 unless v is RegoV0, and the capabilities of that version: the builtin functions that
// policies may call, and no network access.
func Of(v placementv1.RegoVersion) (ast.RegoVersion, *ast.Capabilities) {
	if v == placementv1.RegoV0 {
		return ast.RegoV0, capabilitiesV0()
	}
	return ast.RegoV1, capabilitiesV1()
}

// Forbidden returns the function name from OPA's message about an undefined function. The result is true if OPA has a builtin function of
// that name, which policies may not call, and false for an unknown name and for other messages.
func Forbidden(message string) (string, bool) {
	_, name, found := strings.Cut(message, "undefined function ")
	if !found {
		return "", false
	}
	_, known := ast.BuiltinMap[name]
	return name, known
}

// RenamedBuiltin returns the current name of a builtin function from OPA before 0.5, which used underscores for dots,
// as in json_marshal. The result ok is false if name is not such a function.
func RenamedBuiltin(name string) (today string, ok bool) {
	if _, known := ast.BuiltinMap[name]; known || !strings.Contains(name, "_") {
		return "", false
	}
	// A name has at most two dots, and may have underscores after them.
	once := strings.Replace(name, "_", ".", 1)
	for _, candidate := range []string{once, strings.Replace(once, "_", ".", 1)} {
		if _, known := ast.BuiltinMap[candidate]; known {
			return candidate, true
		}
	}
	return "", false
}
