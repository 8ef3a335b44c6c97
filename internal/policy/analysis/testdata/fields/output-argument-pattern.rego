# The output argument takes the result apart.
package p

f(x) := x.a

errors contains y if f(input, {"a": y})

errors contains "a" if f(input, ["a"])

errors contains "empty" if f(input, {})

errors contains "list" if f(input, [])
