# Fields, paths and defaults.
package p

annotations["a"] := object.get(input, "a", {})

annotations["b"] := object.get(input, ["a", "b"], "none")

annotations["c"] := object.get(input.b, input.c, "none")

annotations["d"] := object.get(input.c, [], "none")

errors contains "e" if not object.get(input, ["b", 0], input.c).a
