# A rule is one of several strings.
package p

default name := "a"

name := "b" if input.c

annotations := {"x": input[name]}
