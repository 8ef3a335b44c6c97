# How many members an array has.
package p

annotations := {"n": count([1 | input.a[_]]), "m": count(input.b)}
