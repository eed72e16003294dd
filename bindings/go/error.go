package quire

import (
	"fmt"
	"time"

	"quire.dev/quire/internal/native"
)

// String returns the name that a script can match, such as "invalid_argument".
func (c Code) String() string { return native.Quire_error_code_name(int32(c)) }

// Error is a failed call. errors.As finds it, and errors.Is(err, quire.CodeNotFound) checks its code.
type Error struct {
	Code       Code
	Message    string
	Parameter  string        // the parameter at fault, as the C interface names it ("temperature"); empty if it is not about one
	Retryable  bool          // the same call may succeed later without any change by the caller
	RetryAfter time.Duration // time to wait before another try; negative if unknown
}

func closed(message string) *Error { return &Error{Code: CodeClosed, Message: message, RetryAfter: -1} }

// refused describes a field that this package refuses.
func refused(field, message string) *Error {
	return &Error{Code: CodeInvalidArgument, Message: field + ": " + message, Parameter: field, RetryAfter: -1}
}

func (e *Error) Error() string { return fmt.Sprintf("quire: %s: %s", e.Code.String(), e.Message) }

// Is reports whether the error has the target's code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Error makes a Code usable as the target of errors.Is.
func (c Code) Error() string { return "quire: " + c.String() }

// call makes one native call and converts its error object.
func call[T any](function func(failure *native.ErrorHandle) T) (T, error) {
	var failure native.ErrorHandle
	result := function(&failure)
	if failure == 0 {
		return result, nil
	}
	err := &Error{Code(native.Quire_error_code(failure)), native.Quire_error_message(failure),
		native.Quire_error_parameter(failure), native.Quire_error_is_retryable(failure) == 1, time.Duration(native.Quire_error_retry_after_ns(failure))}
	native.Quire_error_free(failure)
	return result, err
}

// measured queries the size of a result, allocates memory for it, and fetches it. It repeats this if the
// result has grown meanwhile.
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
