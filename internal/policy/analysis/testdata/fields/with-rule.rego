# A rule is replaced by an object.
package p

helper := input.a

annotations["x"] := y if { y := helper.b with data.p.helper as input.c }
