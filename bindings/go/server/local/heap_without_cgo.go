//go:build !cgo

package local

import "quire.dev/quire/internal/native"

// trimHeap is that of heap.go.
func trimHeap() { native.TrimHeap() }
