# Members, their names and that there are none.
package p

errors contains "b" if every v in input.a { v.b }

errors contains "names" if every k, v in input.b { v == input.c[k] }

errors contains "not" if not nothing

nothing if every v in input.c { v.a.b }
