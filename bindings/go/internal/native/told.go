package native

import "sync"

// Progress is told how far a load is, on the goroutine that loads. A panic in it must not leave it.
type Progress func(doneBytes, totalBytes int64)

// told has each Progress by the number that stands for it in the library.
var told sync.Map // of uintptr

var lastTold struct {
	sync.Mutex
	number uintptr
}

// Tell is a number that stands for a Progress until Forget.
func Tell(progress Progress) uintptr {
	lastTold.Lock()
	defer lastTold.Unlock()
	lastTold.number++
	told.Store(lastTold.number, progress)
	return lastTold.number
}

// Forget is called once nobody tells the Progress anything any more.
func Forget(number uintptr) { told.Delete(number) }

func tell(number uintptr, doneBytes, totalBytes int64) {
	if progress, known := told.Load(number); known {
		progress.(Progress)(doneBytes, totalBytes)
	}
}
