# All names of the input are read.
package p

errors contains k if input[k].a
