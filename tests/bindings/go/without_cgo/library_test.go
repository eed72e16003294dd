//go:build !cgo

package withoutcgo

import (
	"strings"
	"testing"

	"quire.dev/quire"
)

// Run by without_cgo.py, with QUIRE_LIBRARY=/nowhere/libquire.so.
func TestWithoutTheLibraryARuntimeFailsByItsName(t *testing.T) {
	_, err := quire.NewRuntime(quire.RuntimeOptions{})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/libquire.so") {
		t.Fatal(err)
	}
}
