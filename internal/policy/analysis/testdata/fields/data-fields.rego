# Objects are read through a function, by variables and by names.
package p

f(n) := n.a.b

errors contains n if f(data.kubernetes.nodes[n])

errors contains "pod" if { p := data.kubernetes.pods[input.a][_]; p.c }

errors contains "cluster" if data.clusters[_].a[input.b]
