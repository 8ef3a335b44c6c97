# Types alone.
package p

errors contains type_name(input.a)

errors contains "b" if is_array(input.b)

errors contains "c" if not is_null(input.c)
