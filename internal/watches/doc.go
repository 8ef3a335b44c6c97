// Package watches provides list-watches on resource types that are known only at run time, and a catalog of the types
// that the API server serves.
package watches
