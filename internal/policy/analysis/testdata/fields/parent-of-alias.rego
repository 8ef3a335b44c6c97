# An alias of an alias is undefined with its parent.
package p

errors contains "x" if { x := input.a; y := x.b; not y.c }
