# All of the input is a value.
package p

errors contains json.marshal(input) if input.a
