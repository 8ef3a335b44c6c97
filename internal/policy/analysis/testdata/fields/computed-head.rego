# A composite in front of brackets.
package p

errors contains "x" if [input.a, input.b][_].c

errors contains "y" if {"a": input.b}[input.a].c
