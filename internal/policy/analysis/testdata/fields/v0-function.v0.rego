# Functions and their output arguments.
package p

f(x) = y { y = x.a } else = y { y = x.b }

errors["same"] {
	f(input.a, y)
	f(input.b, y)
}
