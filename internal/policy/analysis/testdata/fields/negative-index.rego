# Indexes that arrays do not have.
package p

errors contains "minus" if input.a[-1]

errors contains "one" if input.a[1]

errors contains "text" if input.a["0"]

errors contains "float" if input.a[1.0]
