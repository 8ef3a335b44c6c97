# A rule that is a string is replaced by another one.
package p

name := "a"

chosen := input[name]

annotations := {"x": y} if { y := chosen with data.p.name as "b" }
