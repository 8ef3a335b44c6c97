# Whole values are members.
package p

errors contains "in" if input.a in input.b

errors contains "at" if "a", input.c in input.b
