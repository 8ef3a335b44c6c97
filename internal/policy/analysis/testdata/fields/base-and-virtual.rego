# Documents and rules are merged.
package p

extra := input.a.b

annotations := {k: v | some k; v := data.acme[k].b}
