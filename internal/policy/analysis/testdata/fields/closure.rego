# A nested body reads what the outer one bound.
package p

errors contains "x" if { x := input.a; count([1 | x.b[_].c]) > 0 }
