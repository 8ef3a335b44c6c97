# The store takes a text for an index.
package p

errors contains "x" if data.kubernetes.nodes.a.a["0"].b

errors contains "y" if data.kubernetes.nodes.a["0"]

errors contains "z" if { x := data.kubernetes.nodes.b; not x.b["1"] }
