# A variable is bound by a pattern and compared with a field.
package p

errors contains "same" if { [x, _] = input.a; x = input.b }

errors contains "object" if { {"a": y, "b": y} = input }
