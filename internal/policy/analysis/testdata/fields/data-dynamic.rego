# The type is known to evaluation alone.
package p

errors contains k if data.kubernetes[k].a.b

errors contains "x" if data.kubernetes[input.a].b
