# A bare reference is false, or undefined, or true.
package p

errors contains "bare" if input.a.b

errors contains "not" if not input.a.b

errors contains "defined" if { _ = input.a.b }
