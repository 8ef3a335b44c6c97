# A function that reads more stands in for one that reads less.
package p

f(x) := x.a

g(x) := x.b

annotations["x"] := y if { y := f(input) with f as g }
