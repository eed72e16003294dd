package local

// #include <stdlib.h>
// #ifdef __GLIBC__
// #include <malloc.h>
// static void trim_heap(void) { malloc_trim(0); }
// #else
// static void trim_heap(void) {}
// #endif
import "C"

// trimHeap gives free memory of the C heap back to the system. glibc keeps what is free within an arena, and each load
// runs on other threads, thus in another arena: without this a server that exchanges its models keeps the small pieces
// of some of them for each arena.
func trimHeap() { C.trim_heap() }
