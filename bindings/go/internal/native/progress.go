package native

// #include <stdint.h>
import "C"

import "runtime/cgo"

// Progress is told how far a load is, on the goroutine that loads. A panic in it must not leave it.
type Progress func(doneBytes, totalBytes int64)

//export quireGoProgress
func quireGoProgress(progress C.uintptr_t, doneBytes, totalBytes C.int64_t) {
	cgo.Handle(progress).Value().(Progress)(int64(doneBytes), int64(totalBytes))
}
