# A bound variable is compared with a part of the result.
package p

g(x) := [x.a]

errors contains "same" if { y := input.b; g(input, [y]) }
