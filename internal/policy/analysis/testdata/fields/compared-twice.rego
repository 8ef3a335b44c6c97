# One parameter twice, and nothing in the body.
package p

f(x, x) := true

errors contains "f" if f(input.a, input.b)
