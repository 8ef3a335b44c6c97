// Package setup assembles the parts of Berth into a manager. It is the only package that connects controllers and
// webhooks.
package setup
