// Package bench measures what Berth promises of its speed and its memory, part by part and, in endtoend, through a real
// API server. The runner makes medians and ratios of the figures, writes RESULTS.md, and compares them with ranges.yaml.
package bench
