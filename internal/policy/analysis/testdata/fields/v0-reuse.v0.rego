# A variable that is not declared is bound or compared.
package p

errors["same"] {
	x = input.a
	x = input.b
}

errors["alias"] {
	x = input.a
	not x.b
}

errors[x] {
	x = input.c[_]
	input.b[x]
}
