# A rule calls a function that returns one field or another.
package p

f(k) := input.a if k == 1

else := input.b

x := f(k) if some k in [1, 2]

errors contains "y" if not x.c
