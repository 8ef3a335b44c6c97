# Another input keeps what it does not replace.
package p

helper := [input.a, input.a.c]

annotations["x"] := y if { y := helper with input.a.b as 1 }
