# A rule that is a string names a field.
package p

name := "a"

annotations := {"x": input[name].b}
