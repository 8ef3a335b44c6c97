# Branches of a function share its arguments.
package p

f(x) := x.a if x.b

else := x.c

annotations := {"x": f(input), "y": [f(n) | some n in data.kubernetes.nodes]}
