package quire

import (
	"fmt"

	"quire.dev/quire/internal/native"
)

// NewRuntime creates a runtime. It fails with CodeVersion if the library does not fit this package. In a program
// without cgo it fails with another error if there is no library.
func NewRuntime(options RuntimeOptions) (*Runtime, error) {
	if err := native.Load(); err != nil {
		return nil, fmt.Errorf("quire: %w", err)
	}
	if _, err := call(func(e *native.ErrorHandle) int32 {
		return native.Quire_abi_check(native.QUIRE_ABI_MAJOR, native.QUIRE_ABI_MINOR, e)
	}); err != nil {
		return nil, err
	}
	owned, err := options.native()
	if err != nil {
		return nil, err
	}
	defer owned.close()
	created, err := with(owned, native.Quire_runtime_create)
	if err != nil {
		return nil, err
	}
	return &Runtime{own(created, native.Quire_runtime_free), newDispatcher()}, nil
}

// LibraryVersion returns the version of the loaded library, such as "0.1.0".
func LibraryVersion() string { return native.Quire_version_string() }
