//go:build !cgo

package native

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"unsafe"
)

// Caller calls C functions without cgo. quire.dev/quire/purego provides one, in a module of its own.
type Caller struct {
	Open     func(path string) (library uintptr, err error)
	Symbol   func(library uintptr, name string) (uintptr, error)
	Global   func(name string) (uintptr, error)  // finds a symbol in any library of the process
	Function func(pointer any, symbol uintptr)   // makes a Go function from a C function
	Callback func(function any) (symbol uintptr) // makes a C function from a Go function
}

// Use sets the Caller; it must be called before Load.
func Use(given Caller) { caller = given }

var (
	caller Caller
	table  functions
	loaded sync.Once
	failed error
)

// Load fills the table once and returns the reason why the library cannot be used. QUIRE_LIBRARY names its
// file; otherwise the system finds it by its name.
func Load() error {
	loaded.Do(func() {
		path := os.Getenv("QUIRE_LIBRARY")
		if path == "" {
			path = fmt.Sprintf("libquire.so.%d.%d", QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR)
		}
		failed = fill(path)
	})
	return failed
}

func fill(path string) error {
	if caller.Open == nil {
		return errors.New("this program is built without cgo: import quire.dev/quire/purego")
	}
	library, err := caller.Open(path)
	if err != nil {
		return fmt.Errorf("the library cannot be loaded (set QUIRE_LIBRARY to its file): %w", err)
	}
	fields := reflect.ValueOf(&table).Elem()
	for i := 0; i < fields.NumField(); i++ {
		name := "q" + strings.TrimPrefix(fields.Type().Field(i).Name, "Q")
		symbol, err := caller.Symbol(library, name)
		if err != nil {
			return fmt.Errorf("%s has no %s: install the library version of this package", path, name)
		}
		caller.Function(fields.Field(i).Addr().Interface(), symbol)
	}
	return nil
}

// quire returns the table. It panics if the library is missing and Load was not called first.
func quire() *functions {
	if err := Load(); err != nil {
		panic("quire: " + err.Error())
	}
	return &table
}

// textOf returns the address of a text that is passed to C with its length.
func textOf(text string) *byte { return *(**byte)(unsafe.Pointer(&text)) }

// sliceOf returns the address of a slice that is passed to C with its length.
func sliceOf[T any](slice []T) *T {
	if len(slice) == 0 {
		return nil
	}
	return &slice[0]
}

// cloned copies a borrowed text.
func cloned(text *byte, length uint) string {
	if text == nil {
		return ""
	}
	return string(unsafe.Slice(text, length))
}

// terminated copies a borrowed text that ends with a zero byte.
func terminated(text *byte) string {
	if text == nil {
		return ""
	}
	length := uint(0)
	for *(*byte)(unsafe.Add(unsafe.Pointer(text), length)) != 0 {
		length++
	}
	return cloned(text, length)
}

var (
	progressCallback uintptr
	madeCallback     sync.Once
)

// progressOf returns the C callback for the Progress of this number, or none for 0.
func progressOf(number uintptr) uintptr {
	if number == 0 {
		return 0
	}
	madeCallback.Do(func() {
		progressCallback = caller.Callback(func(number uintptr, doneBytes, totalBytes int64) {
			tell(number, doneBytes, totalBytes)
		})
	})
	return progressCallback
}

// TrimHeap returns free memory of the C heap to the system. It does nothing with a C library other than
// glibc.
func TrimHeap() {
	trim, err := caller.Global("malloc_trim")
	if err != nil {
		return
	}
	var call func(pad uint) int32
	caller.Function(&call, trim)
	call(0)
}
