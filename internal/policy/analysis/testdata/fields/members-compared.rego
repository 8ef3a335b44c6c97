# Members of two collections are compared.
package p

errors contains "x" if { some x in input.a; some y in input.b; x == y }

errors contains "y" if { x = input.a[_]; x = input.b[_] }
