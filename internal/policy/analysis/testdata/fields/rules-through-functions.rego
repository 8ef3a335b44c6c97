package p

# What the rules read they read through functions, and each reads less than all of them together.
labels := {"id": input.id}

f(o) := o.a

g(o) if f(o.b) == "a"

g(o) if o.c

h(name) := input[name].a

x if g(input)

y := f(input)

z := h("b")

errors contains "x" if x

warnings contains json.marshal(y)

warnings contains sprintf("z %v", [z])
