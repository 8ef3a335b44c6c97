package p

# Nodes are in no namespace, and that is no name below which they are.
errors contains name if some name, _ in data.kubernetes.nodes[""]

errors contains "b" if data.kubernetes.nodes[""].b

errors contains "of a pod" if data.kubernetes.pods[""]

labels := {"a": x} if {
	x := object.get(data.kubernetes.nodes[""], ["a", "metadata", "name"], "none")
}
