//go:build !cgo

package local

import "quire.dev/quire/internal/native"

// trimHeap does the same as in heap.go.
func trimHeap() { native.TrimHeap() }
