//go:build !cgo

package local

import "github.com/ebitengine/purego"

// trimHeap is that of heap.go; a C library that is not glibc has no such function.
func trimHeap() {
	if trim, err := purego.Dlsym(purego.RTLD_DEFAULT, "malloc_trim"); err == nil {
		purego.SyscallN(trim, 0)
	}
}
