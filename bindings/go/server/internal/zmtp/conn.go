// Package zmtp implements the part of ZeroMQ's protocol, ZMTP 3, that a publisher needs: sockets of the types
// PUB and ROUTER that listen on TCP, without security. Peers are sockets of the types SUB, DEALER and REQ.
package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

const (
	greetingSize  = 64
	handshakeTime = 5 * time.Second
	// Maximum size of a frame from a peer. Peers only send subscriptions and numbers.
	maxIncoming = 1 << 16

	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

var errProtocol = errors.New("zmtp: the peer does not use ZMTP 3 without security")

// frame is one part of a message, or a command.
type frame struct {
	flags byte
	body  []byte
}

// conn is one connection after its handshake. One goroutine reads, one writes.
type conn struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
}

// handshake performs the handshake as a socket of this type. It does not check the peer's type; its messages
// are checked.
func handshake(raw net.Conn, socketType string) (*conn, error) {
	c := &conn{Conn: raw, in: bufio.NewReader(raw), out: bufio.NewWriter(raw)}
	if err := raw.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	var greeting [greetingSize]byte
	greeting[0], greeting[9] = 0xFF, 0x7F
	greeting[10] = 3 // version 3.0, in which subscriptions are messages
	copy(greeting[12:], "NULL")
	if _, err := raw.Write(greeting[:]); err != nil {
		return nil, err
	}
	var theirs [greetingSize]byte
	if _, err := io.ReadFull(c.in, theirs[:]); err != nil {
		return nil, err
	}
	if theirs[0] != 0xFF || theirs[9]&1 != 1 || theirs[10] < 3 || string(theirs[12:17]) != "NULL\x00" {
		return nil, errProtocol
	}
	ready := command("READY", property("Socket-Type", socketType))
	if err := c.write([]frame{ready}); err != nil {
		return nil, err
	}
	answer, err := c.readFrame()
	if err != nil {
		return nil, err
	}
	if answer.flags&flagCommand == 0 || nameOf(answer) != "READY" {
		return nil, errProtocol
	}
	return c, raw.SetDeadline(time.Time{})
}

func property(name, value string) []byte {
	text := append([]byte{byte(len(name))}, name...)
	text = binary.BigEndian.AppendUint32(text, uint32(len(value)))
	return append(text, value...)
}

func command(name string, data []byte) frame {
	return frame{flagCommand, append(append([]byte{byte(len(name))}, name...), data...)}
}

// nameOf returns the name of a command.
func nameOf(f frame) string {
	if len(f.body) == 0 || len(f.body) <= int(f.body[0]) {
		return string(f.body[min(1, len(f.body)):])
	}
	return string(f.body[1 : 1+int(f.body[0])])
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func (c *conn) readFrame() (frame, error) {
	flags, err := c.in.ReadByte()
	if err != nil {
		return frame{}, err
	}
	var size uint64
	if flags&flagLong != 0 {
		var long [8]byte
		if _, err = io.ReadFull(c.in, long[:]); err != nil {
			return frame{}, err
		}
		size = binary.BigEndian.Uint64(long[:])
	} else {
		short, err := c.in.ReadByte()
		if err != nil {
			return frame{}, err
		}
		size = uint64(short)
	}
	if size > maxIncoming {
		return frame{}, errProtocol
	}
	f := frame{flags, make([]byte, size)}
	_, err = io.ReadFull(c.in, f.body)
	return f, err
}

// readMessage returns the parts of the next message. Commands between messages go to handle.
func (c *conn) readMessage(handle func(frame)) ([][]byte, error) {
	var parts [][]byte
	for total := 0; total <= maxIncoming; {
		f, err := c.readFrame()
		switch {
		case err != nil:
			return nil, err
		case f.flags&flagCommand != 0:
			handle(f)
			continue
		}
		total += len(f.body) + 1
		parts = append(parts, f.body)
		if f.flags&flagMore == 0 {
			return parts, nil
		}
	}
	return nil, errProtocol
}

func (c *conn) write(frames []frame) error {
	for _, f := range frames {
		if len(f.body) <= 255 {
			_, _ = c.out.Write([]byte{f.flags, byte(len(f.body))})
		} else {
			head := binary.BigEndian.AppendUint64([]byte{f.flags | flagLong}, uint64(len(f.body)))
			_, _ = c.out.Write(head)
		}
		_, _ = c.out.Write(f.body)
	}
	return c.out.Flush() // returns the first failure of the writes
}

// message converts parts to frames.
func message(parts [][]byte) []frame {
	frames := make([]frame, len(parts))
	for i, part := range parts {
		frames[i] = frame{flagMore, part}
	}
	frames[len(frames)-1].flags = 0
	return frames
}
