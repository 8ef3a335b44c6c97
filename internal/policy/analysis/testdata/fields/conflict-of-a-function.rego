# A function has two values for one argument.
package p

f(x) := x.a[_]

errors contains "y" if { v := f(input); not v.b }
