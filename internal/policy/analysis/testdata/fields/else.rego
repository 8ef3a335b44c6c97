# Only the branch that holds has a value.
package p

x := input.a if input.a.b

else := input.b if input.c

else := {"c": true}

errors contains "x" if x.c
