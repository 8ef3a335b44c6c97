# A member is compared with a pattern.
package p

errors contains "x" if every v in input.a { v = [x, _]; x }
