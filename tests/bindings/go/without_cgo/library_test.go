//go:build !cgo

package withoutcgo

import (
	"strings"
	"testing"

	"quire.dev/quire"
)

// without_cgo.py runs this with QUIRE_LIBRARY=/nowhere/libquire.so.
func TestARuntimeWithoutTheLibraryNamesTheLibrary(t *testing.T) {
	_, err := quire.NewRuntime(quire.RuntimeOptions{})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/libquire.so") {
		t.Fatal(err)
	}
}
