# Two rules have two values, if both hold.
package p

x := input.a if input.c

x := input.b if input.c

errors contains "y" if x.c
