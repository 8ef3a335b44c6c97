// Package projection cuts documents down to a set of fields. If only those fields matter, the cut replaces the whole
// document: as the value in an evaluation, and as the key in a cache.
//
// Collect the fields in a Fields and call Seal. Then call Cut, Value, Size, or AppendKey for each document.
package projection
