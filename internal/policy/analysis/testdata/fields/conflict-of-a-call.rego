# A rule calls a function with several arguments.
package p

f(k) := input.a if k == 1

else := {}

x := f(k) if some k in [1, 2]

errors contains "y" if not x.c
