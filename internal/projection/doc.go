// Package projection cuts documents down to the fields that somebody reads. Where only those fields matter, the cut
// stands for the document: in an evaluation as a value, and in a memo as a key.
package projection
