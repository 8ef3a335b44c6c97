# Everything is walked over.
package p

annotations["x"] := [p | walk(input.a, [p, "a"])]

annotations["y"] := [v | walk(input.b, [["a"], v])]
