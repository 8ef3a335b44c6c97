// Package review provides an HTTP handler for admission reviews of any size in bounded memory. A review that is too
// large, or for which there is no memory, still gets a valid response.
package review
