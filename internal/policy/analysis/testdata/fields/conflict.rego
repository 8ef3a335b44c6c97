# A rule with two values is an error, if they differ.
package p

x := input.a[_]

annotations := {"y": is_object(x)}
