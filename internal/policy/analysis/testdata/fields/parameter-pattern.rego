# Parameters take arguments apart.
package p

f([x, _]) := x

f({"a": x}) := x

f("a") := "a"

annotations := {"x": f(input.a), "y": [y | some v in input.b; y := f(v)]}
