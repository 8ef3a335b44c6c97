# Arrays by an index that is read.
package p

errors contains "x" if input.a[input.b].c

errors contains "y" if { i := 1; not input.a[i].b }
