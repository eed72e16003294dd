package quire

import (
	"fmt"

	"quire.dev/quire/internal/native"
)

// Code says why a call failed, in a way that a program can act on.
type Code int32

// The codes of the C interface (quire/error.h).
const (
	InvalidArgument = Code(native.QUIRE_ERROR_INVALID_ARGUMENT)
	BadHandle       = Code(native.QUIRE_ERROR_BAD_HANDLE)
	OutOfMemory     = Code(native.QUIRE_ERROR_OUT_OF_MEMORY)
	NotFound        = Code(native.QUIRE_ERROR_NOT_FOUND)
	IO              = Code(native.QUIRE_ERROR_IO)
	Format          = Code(native.QUIRE_ERROR_FORMAT)
	Truncated       = Code(native.QUIRE_ERROR_TRUNCATED)
	Unsupported     = Code(native.QUIRE_ERROR_UNSUPPORTED)
	Capacity        = Code(native.QUIRE_ERROR_CAPACITY)
	Cancelled       = Code(native.QUIRE_ERROR_CANCELLED)
	Timeout         = Code(native.QUIRE_ERROR_TIMEOUT)
	Closed          = Code(native.QUIRE_ERROR_CLOSED)
	Encoding        = Code(native.QUIRE_ERROR_ENCODING)
	Numeric         = Code(native.QUIRE_ERROR_NUMERIC)
	DeviceLost      = Code(native.QUIRE_ERROR_DEVICE_LOST)
	Deadline        = Code(native.QUIRE_ERROR_DEADLINE)
	Forked          = Code(native.QUIRE_ERROR_FORKED)
	Version         = Code(native.QUIRE_ERROR_VERSION)
	Internal        = Code(native.QUIRE_ERROR_INTERNAL)
	Reentrant       = Code(native.QUIRE_ERROR_REENTRANT)
	Quota           = Code(native.QUIRE_ERROR_QUOTA)
	TooLarge        = Code(native.QUIRE_ERROR_TOO_LARGE) // it can never fit
	SlowReader      = Code(native.QUIRE_ERROR_SLOW_READER)

	DeadlineTooShort = Code(native.QUIRE_ERROR_DEADLINE_TOO_SHORT)
)

// String is the name that a script can match, such as "invalid_argument".
func (c Code) String() string { return native.Quire_error_code_name(int32(c)) }

// Error is a failed call: errors.As finds it, and errors.Is(err, quire.NotFound) asks for its code.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("quire: %s: %s", e.Code.String(), e.Message) }

// Is tells whether the error has the same code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Error lets a Code stand as the target of errors.Is.
func (c Code) Error() string { return "quire: " + c.String() }

// call makes one native call and turns its error object into an error.
func call[T any](function func(failure *native.ErrorHandle) T) (T, error) {
	var failure native.ErrorHandle
	result := function(&failure)
	if failure == 0 {
		return result, nil
	}
	err := &Error{Code(native.Quire_error_code(failure)), native.Quire_error_message(failure)}
	native.Quire_error_free(failure)
	return result, err
}

// measured asks for the size of a result, makes room for it, and fetches it; it asks again where the result
// grew in between.
func measured[E any](function func(out []E, failure *native.ErrorHandle) int64) ([]E, error) {
	var out []E
	for {
		size, err := call(func(failure *native.ErrorHandle) int64 { return function(out, failure) })
		if err != nil {
			return nil, err
		}
		if size <= int64(len(out)) {
			return out[:size], nil
		}
		out = make([]E, size)
	}
}
