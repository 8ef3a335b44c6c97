# A rule has two values under two inputs.
package p

v := input.b

x := y if { some k in [1, 2]; y := v with input.a as k }

x := z if z := v with input.b as {}

errors contains "z" if x.c

errors contains "not z" if not x.c
