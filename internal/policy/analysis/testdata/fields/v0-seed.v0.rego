# The form of policies before OPA 1.0.
package p

import data.kubernetes.nodes
import input.a as meta

annotations["x"] = preferences {
	value = {"clusters": names}
	json.marshal(value, preferences)
}

names[name] = 1 {
	allowed[name]
}

allowed[name] {
	nodes[name].a = meta.b
	re_match("c", data.acme.b[_])
}

errors["e"] {
	x = meta
	y = x.c
	not y.a
}
