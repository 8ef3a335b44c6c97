# A variable is bound once, and then compared.
package p

errors contains "same" if { x := input.a; x == input.b }

errors contains "other" if { x := input.a; not x = input.b }
