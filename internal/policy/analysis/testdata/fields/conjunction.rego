# One variable is bound by names and compared with a field.
package p

errors contains "x" if { some k; input.a[k]; k = input.b }
