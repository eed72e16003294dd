// Package purego lets a program that is built without cgo (CGO_ENABLED=0) use package quire: it imports this one for its
// effect, and the library is found while the program runs. With cgo it does nothing. It is a module of its own, so that
// package quire depends on nothing.
package purego
