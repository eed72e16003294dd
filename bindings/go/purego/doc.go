// Package purego makes package quire usable in programs that are built without cgo (CGO_ENABLED=0). A program
// imports it for its side effect, and the library is then found at run time. With cgo it does nothing. It is
// a module of its own, so that package quire has no dependencies.
package purego
