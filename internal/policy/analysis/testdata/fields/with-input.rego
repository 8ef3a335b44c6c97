# What is read under another input is read of that.
package p

helper := input.a.b

annotations["x"] := y if { y := helper with input as input.c }

annotations["y"] := y if { y := helper with input.a as input.b }
