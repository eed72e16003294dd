// Package native is the C interface as flat functions on handles. Nothing here guards a caller; package quire does.
// With cgo it is as SWIG translates it: QuireNative.go and quire_wrap.c are generated (bindings/CMakeLists.txt). Without
// it QuireFunctions.go has the same names, and finds them in the library while the program runs (table.go).
package native

// #cgo pkg-config: quire
import "C"

// Load tells why the library cannot be used; it is linked.
func Load() error { return nil }
