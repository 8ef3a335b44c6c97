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

// Package budget says how much searches and random tests try, and how large long scenarios are. One variable scales all of them: CI has
// the budget 1, and make soak and make release-check have a large one.
package budget

import (
	"os"
	"strconv"
)

// Variable is the environment variable that has the budget, a number from 1.
const Variable = "BERTH_TEST_BUDGET"

// Rounds returns how many rounds a random test runs: few of them with the budget 1, and so many times more with a larger one. It
// panics if the variable is not a number from 1.
func Rounds(few int) int {
	text, found := os.LookupEnv(Variable)
	if !found {
		return few
	}
	factor, err := strconv.Atoi(text)
	if err != nil || factor < 1 {
		panic(Variable + " is " + strconv.Quote(text) + ", want a number from 1")
	}
	return few * factor
}

// Size returns the size of a scenario that is not random, such as a number of objects: small with the budget 1, and full with a larger
// one.
func Size(small, full int) int {
	if Rounds(1) == 1 {
		return small
	}
	return full
}
