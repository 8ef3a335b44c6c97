// Package setup wires the parts of Berth into a manager. It is the one place where they know each other.
package setup
