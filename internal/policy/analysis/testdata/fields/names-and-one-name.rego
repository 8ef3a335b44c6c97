# Every member's field is read, and another one of one member.
package p

errors contains k if input[k].a

errors contains "x" if input.b.c
