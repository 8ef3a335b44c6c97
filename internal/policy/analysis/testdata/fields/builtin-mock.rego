# A function stands in for a builtin function that looks at the type alone.
package p

g(x) := x.b

annotations["x"] := y if { y := type_name(input.a) with type_name as g }

annotations["y"] := y if { y := count(input.a) with count as g }
