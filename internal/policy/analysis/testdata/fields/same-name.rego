# Two nested bodies use one name for two variables.
package p

annotations := {"x": [x.a | x = input.a], "y": [x.b | x = input.b]}
