# An equation is a value.
package p

annotations := {"x": input.a == input.b, "y": [z | z := input.c == {}]}
