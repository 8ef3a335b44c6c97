# The output argument is bound before.
package p

f(x) := x.a

errors contains "same" if { x := input.b; f(input, x) }
