# An operand is itself a reference.
package p

errors contains "x" if input.a[input.b[input.c]]

errors contains "y" if data.kubernetes.nodes[input.a.b].c
