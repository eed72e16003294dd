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

// What a connection may take: time for its headers, its body and each piece of its answer, and a place.

// The most that the headers of a request may have.
const maxHeaderBytes = 64 << 10

// HTTPServer is a server of HTTP/1 with limits on what connections may take. Without it, as a Handler of another server
// or behind Transport, those limits are the other's matter.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, conn)
		},
		ErrorLog: log.New(connectionLog{s.log}, "", 0),
	}
}

// connectionLog takes what net/http says of connections that break, which is no matter of ours.
type connectionLog struct{ to *Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	l.to.Warn("a connection broke", Fields{"error": strings.TrimSpace(string(line))})
	return len(line), nil
}

type connectionKey struct{}

// connectionOf is the connection of a request to an HTTPServer, else nil.
func connectionOf(ctx context.Context) net.Conn {
	conn, _ := ctx.Value(connectionKey{}).(net.Conn)
	return conn
}

// LimitConnections lets so many connections of a listener live at a time; others wait in the system's queue.
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

// limitedConn gives its place back once it is closed.
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
