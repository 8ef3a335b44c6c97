# Parameters are compared with each other.
package p

f(x, x) := true

g(x, y) if x = y

h(x, y) if { z := x; z = y }

errors contains "f" if f(input.a, input.b)

errors contains "g" if g(input.a, input.c)

errors contains "h" if h(input.b, input.c)
