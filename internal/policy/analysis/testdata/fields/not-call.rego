# A function that is not.
package p

f(x) if x.a

errors contains "x" if not f(input.b)
