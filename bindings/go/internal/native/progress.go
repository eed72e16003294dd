package native

// #include <stdint.h>
import "C"

//export quireGoProgress
func quireGoProgress(number C.uintptr_t, doneBytes, totalBytes C.int64_t) {
	tell(uintptr(number), int64(doneBytes), int64(totalBytes))
}
