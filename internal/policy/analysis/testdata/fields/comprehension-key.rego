# All of what becomes a key is read.
package p

errors contains sprintf("%v", [{x: 1 | x := input.a}])

errors contains sprintf("%v", [{x.a: 1 | some x in input.b}])
