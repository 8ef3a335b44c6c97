# Fields in a template string.
package p

errors contains $"x {input.a} {input.b.c}"
