# A rule calls a function with several members.
package p

f(o) := o.a

x := f(o) if some o in input.a

errors contains "y" if not x.c

y := f(o) if some o in data.kubernetes.nodes

errors contains "z" if y.b
