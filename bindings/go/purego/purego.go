//go:build !cgo

package purego

import (
	"github.com/ebitengine/purego"

	"quire.dev/quire/internal/native"
)

func init() {
	native.Use(native.Caller{
		Open:     func(path string) (uintptr, error) { return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL) },
		Symbol:   purego.Dlsym,
		Global:   func(name string) (uintptr, error) { return purego.Dlsym(purego.RTLD_DEFAULT, name) },
		Function: purego.RegisterFunc,
		Callback: purego.NewCallback,
	})
}
