# A rule is a field, or the default.
package p

x := object.get(input.a, "b", {})

y := object.get(input, ["c", k], {}) if some k in ["a", "b"]

errors contains "x" if x.c

errors contains "y" if not y.c
