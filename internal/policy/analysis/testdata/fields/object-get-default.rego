# The default is a field, too.
package p

errors contains "e" if not object.get(input, ["b", 0], input.c).a

errors contains "f" if object.get(input.a, "b", input.c).b
