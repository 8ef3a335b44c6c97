# All of the input is handed on, and little of it read.
package p

f(o) := o.a.b

g(o) := f(o)

annotations := {"x": g(input)}
