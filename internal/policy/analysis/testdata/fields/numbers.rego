# Numbers are what they are worth.
package p

errors contains "a" if input.a == 1

errors contains "b" if input.b < 1
