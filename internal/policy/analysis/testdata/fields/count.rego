# Names and lengths alone.
package p

annotations["a"] := count(input.a)

annotations["k"] := object.keys(input.b)
