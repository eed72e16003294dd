package quire

import (
	"math"
	"strconv"

	"quire.dev/quire/internal/native"
)

// settings fills a native object, until a setter fails. Fields with the zero value of their type keep their
// default.
type settings[H ~uintptr] struct {
	target H
	err    error
}

// filled creates a native object and fills it; the caller closes it.
func filled[H ~uintptr](create func(*native.ErrorHandle) H, free func(H, *native.ErrorHandle) int32,
	fill func(s *settings[H])) (*handle[H], error) {
	created, err := call(create)
	if err != nil {
		return nil, err
	}
	owned := own(created, free)
	s := settings[H]{target: created}
	if fill(&s); s.err != nil {
		_ = owned.close()
		return nil, s.err
	}
	return owned, nil
}

func (s *settings[H]) apply(setter func(target H, failure *native.ErrorHandle) int32) {
	if s.err == nil {
		_, s.err = call(func(e *native.ErrorHandle) int32 { return setter(s.target, e) })
	}
}

// fail refuses a field of the settings that the library does not see.
func (s *settings[H]) fail(field, message string) {
	if s.err == nil {
		s.err = refused(field, message)
	}
}

// set calls a setter unless the value is the zero value of its type.
func set[H ~uintptr, T comparable](s *settings[H], setter func(H, T, *native.ErrorHandle) int32, value T) {
	var zero T
	if value != zero {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, value, e) })
	}
}

// setOrNone leaves 0 at the default, which is not 0, and sets 0 for a negative value.
func setOrNone[H ~uintptr, T int32 | int64](s *settings[H], setter func(H, T, *native.ErrorHandle) int32, value T) {
	if value < 0 {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, 0, e) })
		return
	}
	set(s, setter, value)
}

// shared returns the keys and their value if there are several keys with one common value.
func shared[K, V comparable](values map[K]V) (keys []K, value V, same bool) {
	for key, one := range values {
		if len(keys) > 0 && one != value {
			return nil, value, false
		}
		keys, value = append(keys, key), one
	}
	return keys, value, len(keys) > 1
}

// share passes one object of this package to another, which keeps it alive.
func share[H, O ~uintptr](s *settings[H], setter func(H, O, *native.ErrorHandle) int32, other *handle[O]) {
	if s.err == nil {
		_, s.err = with(other, func(value O, e *native.ErrorHandle) int32 { return setter(s.target, value, e) })
	}
}

// shareFilled passes settings to a setter, filled for this call.
func shareFilled[H, O ~uintptr](s *settings[H], setter func(H, O, *native.ErrorHandle) int32,
	fill func() (*handle[O], error)) {
	if s.err != nil {
		return
	}
	other, err := fill()
	if err != nil {
		s.err = err
		return
	}
	defer other.close()
	share(s, setter, other)
}

// narrow converts to int32. A number out of range stays out of the setter's range, so that the setter refuses
// it by name.
func narrow(value int) int32 {
	switch {
	case value > math.MaxInt32:
		return math.MaxInt32
	case value < math.MinInt32:
		return math.MinInt32
	}
	return int32(value)
}

// nameOf returns the text of a value that a later version of the library has added to an enum.
func nameOf(kind string, value int32) string { return kind + "(" + strconv.Itoa(int(value)) + ")" }

// Ptr returns a pointer to a value, for the fields whose default is not the zero value of their type.
func Ptr[T any](value T) *T { return &value }
