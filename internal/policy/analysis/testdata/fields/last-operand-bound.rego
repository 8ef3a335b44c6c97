# The last operand is bound by another document's names.
package p

errors contains "x" if { some k; input.a[k] = input.b[k] }
