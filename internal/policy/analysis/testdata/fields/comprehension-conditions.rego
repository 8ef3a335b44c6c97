# Whether there is anything to collect is read in the body alone.
package p

annotations := {
	"x": {k: 1 | some k in ["a"]; input.b.c},
	"y": [1 | not input.a.b],
	"z": {1 | input.c.a},
}
