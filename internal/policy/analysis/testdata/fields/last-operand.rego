# The last operand is a variable: the names decide, and whether each value is false.
package p

errors contains k if { some k; input.a[k]; not input.b[k] }
