# Where the key may be anything, also a path, the result may be the default all the same.
package p

errors contains sprintf("%v", [object.get(input.a, input.b, input.c)])
