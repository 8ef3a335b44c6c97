# Two rules hold for every input.
package p

x := input.a

x := input.b

errors contains "y" if x.c

errors contains "z" if not x.c
