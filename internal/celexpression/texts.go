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

package celexpression

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// maxText limits a text that a call assembles from others, in bytes. It is larger than an object.
const maxText = 4 << 20

// replace is the CEL function replace(text, old, new[, limit]) of cel-go, but limits the size of the result to maxText.
func replace(operands []ref.Val) ref.Val {
	texts, limit := [3]string{}, types.Int(-1)
	for i, operand := range operands {
		text, isText := operand.(types.String)
		n, isLimit := operand.(types.Int)
		switch {
		case i < len(texts) && isText:
			texts[i] = string(text)
		case i == len(texts) && isLimit:
			limit = n
		default:
			return types.MaybeNoSuchOverloadErr(operand)
		}
	}
	text, found := texts[0], strings.Count(texts[0], texts[1])
	if limit >= 0 {
		found = int(min(int64(found), int64(limit)))
	}
	if found*len(texts[2]) > maxText-len(text) {
		return tooLong("replace")
	}
	return types.String(strings.Replace(text, texts[1], texts[2], found))
}

// join is the CEL function join(list[, separator]) of cel-go, but limits the size of the result to maxText.
func join(operands []ref.Val) ref.Val {
	list, ok := operands[0].(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(operands[0])
	}
	var separator types.String
	if len(operands) > 1 {
		if separator, ok = operands[1].(types.String); !ok {
			return types.MaybeNoSuchOverloadErr(operands[1])
		}
	}
	var out strings.Builder
	for members := list.Iterator(); members.HasNext() == types.True; {
		member := members.Next()
		text, ok := member.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(member)
		}
		if out.Len()+len(separator)+len(text) > maxText {
			return tooLong("join")
		}
		out.WriteString(string(text))
		if members.HasNext() == types.True {
			out.WriteString(string(separator))
		}
	}
	return types.String(out.String())
}

// tooLong returns the error of a call whose result would be larger than maxText.
func tooLong(function string) ref.Val {
	return types.WrapErr(fmt.Errorf("%s() returns more than %d bytes: shorten its arguments", function, maxText))
}
