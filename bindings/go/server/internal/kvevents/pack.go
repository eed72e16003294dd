package kvevents

import (
	"encoding/binary"
	"math"
)

// packed is a msgpack encoder with the types that events need.
type packed []byte

func (p packed) list(length int) packed {
	switch {
	case length < 16:
		return append(p, 0x90|byte(length))
	case length <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(p, 0xdc), uint16(length))
	}
	return binary.BigEndian.AppendUint32(append(p, 0xdd), uint32(length))
}

// fields begins a map of at most 15 names, each followed by its value.
func (p packed) fields(length int) packed { return append(p, 0x80|byte(length)) }

func (p packed) number(value uint64) packed {
	switch {
	case value < 128:
		return append(p, byte(value))
	case value <= math.MaxUint8:
		return append(p, 0xcc, byte(value))
	case value <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(p, 0xcd), uint16(value))
	case value <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(p, 0xce), uint32(value))
	}
	return binary.BigEndian.AppendUint64(append(p, 0xcf), value)
}

func (p packed) real(value float64) packed {
	return binary.BigEndian.AppendUint64(append(p, 0xcb), math.Float64bits(value))
}

func (p packed) text(value string) packed {
	switch {
	case len(value) < 32:
		p = append(p, 0xa0|byte(len(value)))
	case len(value) <= math.MaxUint8:
		p = append(p, 0xd9, byte(len(value)))
	case len(value) <= math.MaxUint16:
		p = binary.BigEndian.AppendUint16(append(p, 0xda), uint16(len(value)))
	default:
		p = binary.BigEndian.AppendUint32(append(p, 0xdb), uint32(len(value)))
	}
	return append(p, value...)
}

func (p packed) none() packed { return append(p, 0xc0) }
