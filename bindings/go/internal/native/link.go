// Package native is the C interface as SWIG translates it: flat functions on handles. Nothing here guards a
// caller; package quire does. QuireNative.go and quire_wrap.c are generated (bindings/CMakeLists.txt).
package native

// #cgo pkg-config: quire
import "C"
