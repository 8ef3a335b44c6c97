// Package watches keeps list-watches on resource types that are only known at run time, and knows which types the
// API server serves.
package watches
