# A call with an output argument compares its result with what the argument holds.
package p

f(x) := x.a

g(x) := x.b

errors contains "same" if { f(input, x); g(input, x) }
