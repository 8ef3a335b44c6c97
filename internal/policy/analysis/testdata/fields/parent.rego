# Whether a field's parent is there decides.
package p

errors contains "unlabelled" if { x := input.a; not x.b.c }
