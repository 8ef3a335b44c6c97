# Members are collected, and the collection compared.
package p

annotations := {"x": [v.a | some v in input.b], "y": {k: v | some k, v in input.c}}

errors contains "same" if {v | some v in input.a} == {v | some v in input.b}
