# A variable is a name, and compared.
package p

errors contains "x" if { k := "a"; input.b[k].c; k == input.c }
