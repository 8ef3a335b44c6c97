# What a function returns is read further.
package p

f(x) := x.a

g(x) := y if { y := f(x) }

errors contains "x" if { y := g(input); y.b; not y.c }

errors contains "y" if { some o in [input]; f(o).b }
