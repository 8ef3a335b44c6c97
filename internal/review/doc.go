// Package review serves admission reviews of any size in bounded memory. A review that is not read as a whole gets a
// well-formed answer all the same.
package review
