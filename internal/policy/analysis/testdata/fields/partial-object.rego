# Documents become members of an object, by a name that is read.
package p

all[k] := x if some k, x in input.a

all.b.c := 1 if input.c

annotations := all
