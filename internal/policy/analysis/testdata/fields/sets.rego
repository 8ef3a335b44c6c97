# Documents become members of sets.
package p

all contains x if some x in input.a

errors contains "all" if count(all) == 1

errors contains "b" if all[input.b]

one contains x if x := input.a

errors contains "one" if { y := input.c; one[y] }
