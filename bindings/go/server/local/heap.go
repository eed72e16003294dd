package local

// #include <stdlib.h>
// #ifdef __GLIBC__
// #include <malloc.h>
// static void trim_heap(void) { malloc_trim(0); }
// #else
// static void trim_heap(void) {}
// #endif
import "C"

// trimHeap returns free memory of the C heap to the system. glibc keeps memory that was freed within an
// arena, and each load runs on other threads with other arenas. Without trimming, a server that exchanges
// models would keep small pieces of some of them in each arena.
func trimHeap() { C.trim_heap() }
