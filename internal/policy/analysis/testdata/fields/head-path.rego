# A name in the middle of a rule's is read.
package p

all.x[k].y := v if some k, v in input.a

errors contains k if all.x[k].y.b

other.x[k].y := true if k := input.b

warnings contains sprintf("%v", [other.x])
