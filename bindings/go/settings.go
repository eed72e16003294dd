package quire

import (
	"math"

	"quire.dev/quire/internal/native"
)

// settings fills a native object, up to the first setter that is refused. What has the zero value of its type
// stays at its default.
type settings[H ~uintptr] struct {
	target H
	err    error
}

// filled makes a native object and fills it; the caller closes it.
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

// set sets what is not the zero value of its type.
func set[H ~uintptr, T comparable](s *settings[H], setter func(H, T, *native.ErrorHandle) int32, value T) {
	var zero T
	if value != zero {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, value, e) })
	}
}

// setOrNone leaves 0 at the default, which is not 0, and makes 0 of what is negative.
func setOrNone[H ~uintptr, T int32 | int64](s *settings[H], setter func(H, T, *native.ErrorHandle) int32, value T) {
	if value < 0 {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, 0, e) })
		return
	}
	set(s, setter, value)
}

// shared is the one value of all keys, where there are several.
func shared[K, V comparable](values map[K]V) (keys []K, value V, same bool) {
	for key, one := range values {
		if len(keys) > 0 && one != value {
			return nil, value, false
		}
		keys, value = append(keys, key), one
	}
	return keys, value, len(keys) > 1
}

// share hands one object of this package to another one, which keeps it alive by itself.
func share[H, O ~uintptr](s *settings[H], setter func(H, O, *native.ErrorHandle) int32, other *handle[O]) {
	if s.err == nil {
		_, s.err = with(other, func(value O, e *native.ErrorHandle) int32 { return setter(s.target, value, e) })
	}
}

// shareFilled hands over other settings, which are filled for that.
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

// narrow keeps a number that is out of range out of range, so that it is refused by name and not wrapped.
func narrow(value int) int32 {
	switch {
	case value > math.MaxInt32:
		return math.MaxInt32
	case value < math.MinInt32:
		return math.MinInt32
	}
	return int32(value)
}
