# What is read under other data is read of that.
package p

helper contains n if { some n, x in data.kubernetes.nodes; x.a }

helper contains "x" if data.kubernetes.nodes.a.b

annotations["x"] := y if { y := helper with data.kubernetes.nodes as input.a }

annotations["y"] := y if { y := helper with data.kubernetes.nodes.a as input.b }
