package native

import "sync"

// Progress receives the progress of a load, on the goroutine that loads. It must not panic.
type Progress func(doneBytes, totalBytes int64)

// told maps the numbers that are passed to the library to their Progress.
var told sync.Map // keys are uintptr

var lastTold struct {
	sync.Mutex
	number uintptr
}

// Tell registers a Progress and returns its number, which is valid until Forget.
func Tell(progress Progress) uintptr {
	lastTold.Lock()
	defer lastTold.Unlock()
	lastTold.number++
	told.Store(lastTold.number, progress)
	return lastTold.number
}

// Forget removes a Progress that is no longer called.
func Forget(number uintptr) { told.Delete(number) }

func tell(number uintptr, doneBytes, totalBytes int64) {
	if progress, known := told.Load(number); known {
		progress.(Progress)(doneBytes, totalBytes)
	}
}
