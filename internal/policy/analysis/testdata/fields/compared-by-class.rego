# Variables are compared by way of others.
package p

errors contains "same" if { x = input.a; y = x; z = y; z = input.b }
