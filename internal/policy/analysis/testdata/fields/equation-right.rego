# Two fields are compared, and neither is read otherwise.
package p

errors contains "e" if input.a.b == input.b
