# A function's default.
package p

default f(_) := {}

f(x) := x.a if x.b

errors contains "x" if f(input).c
