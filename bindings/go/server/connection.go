package server

import (
	"context"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Limits of a connection: time for its headers, its body and each piece of its answer, and the number of
// connections.

// Maximum bytes of the headers of a request.
const maxHeaderBytes = 64 << 10

// HTTPServer returns an HTTP/1 server with limits on connections. Without it, as a Handler of another server
// or with Transport, these limits do not apply.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, conn)
		},
		ErrorLog: log.New(connectionLog{s.log}, "", 0),
	}
}

// connectionLog logs broken connections that net/http reports.
type connectionLog struct{ to *Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	l.to.Warn("a connection broke", Fields{"error": strings.TrimSpace(string(line))})
	return len(line), nil
}

type connectionKey struct{}

// connectionOf returns the connection of a request to an HTTPServer, otherwise nil.
func connectionOf(ctx context.Context) net.Conn {
	conn, _ := ctx.Value(connectionKey{}).(net.Conn)
	return conn
}

// LimitConnections limits the open connections of a listener; further ones wait in the system's queue.
func LimitConnections(listener net.Listener, max int) net.Listener {
	return &limitedListener{Listener: listener, places: make(chan struct{}, max), closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: conn, places: l.places}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn frees its slot when it is closed.
type limitedConn struct {
	net.Conn
	places chan struct{}
	once   sync.Once
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.places })
	return err
}
