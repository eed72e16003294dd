package quire

import (
	"math"
	"runtime"

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

func (s *settings[H]) int(setter func(H, int32, *native.ErrorHandle) int32, value int) {
	if value != 0 {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, narrow(value), e) })
	}
}

func (s *settings[H]) int64(setter func(H, int64, *native.ErrorHandle) int32, value int64) {
	if value != 0 {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, value, e) })
	}
}

func (s *settings[H]) float(setter func(H, float64, *native.ErrorHandle) int32, value float64) {
	if value != 0 {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, value, e) })
	}
}

// flag sets to `to`, 0 or 1, what has the other value by default.
func (s *settings[H]) flag(setter func(H, int32, *native.ErrorHandle) int32, wanted bool, to int32) {
	if wanted {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, to, e) })
	}
}

func (s *settings[H]) text(setter func(H, string, *native.ErrorHandle) int32, value string) {
	if value != "" {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, value, e) })
	}
}

func (s *settings[H]) tokens(setter func(H, []int32, *native.ErrorHandle) int32, value []int32) {
	if value != nil {
		s.apply(func(target H, e *native.ErrorHandle) int32 { return setter(target, value, e) })
	}
}

// share hands one object of this package to another one, which keeps it alive by itself.
func share[H, O ~uintptr](s *settings[H], setter func(H, O, *native.ErrorHandle) int32, other *handle[O]) {
	if s.err == nil {
		_, s.err = with(other, func(value O, e *native.ErrorHandle) int32 { return setter(s.target, value, e) })
	}
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

// figures reads numbers of a native object, up to the first that fails.
type figures[H ~uintptr] struct {
	source H
	err    error
}

func get[H ~uintptr, T any](f *figures[H], getter func(H, *native.ErrorHandle) T) T {
	var none T
	if f.err != nil {
		return none
	}
	value, err := call(func(e *native.ErrorHandle) T { return getter(f.source, e) })
	f.err = err
	return value
}

func getText[H ~uintptr](f *figures[H], getter func(H, []byte, *native.ErrorHandle) int64) string {
	return string(getAll(f, getter))
}

func getAll[H ~uintptr, E any](f *figures[H], getter func(H, []E, *native.ErrorHandle) int64) []E {
	if f.err != nil {
		return nil
	}
	values, err := measured(func(out []E, e *native.ErrorHandle) int64 { return getter(f.source, out, e) })
	f.err = err
	return values
}

// numbered and indexed turn a getter of one of several things into a getter of the one.
func numbered[H ~uintptr, T any](getter func(H, int32, *native.ErrorHandle) T,
	idx int32) func(H, *native.ErrorHandle) T {
	return func(source H, e *native.ErrorHandle) T { return getter(source, idx, e) }
}

func indexed[H ~uintptr, E any](getter func(H, int32, []E, *native.ErrorHandle) int64,
	idx int32) func(H, []E, *native.ErrorHandle) int64 {
	return func(source H, out []E, e *native.ErrorHandle) int64 { return getter(source, idx, out, e) }
}

// read gives an owned object to a function that reads its figures.
func read[H ~uintptr](owner *handle[H], function func(f *figures[H])) error {
	defer runtime.KeepAlive(owner)
	f := figures[H]{source: owner.get()}
	if f.source == 0 {
		return errClosed
	}
	function(&f)
	return f.err
}
