package zmtp

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// Maximum number of messages that wait for one peer. Further ones are dropped for that peer, as in ZeroMQ's
	// publishers.
	maxWaiting = 4096
	writeTime  = 30 * time.Second
	closeTime  = time.Second // timeout of a write once the socket is closed
	maxPeers   = 64
)

// socket accepts peers; its serve function reads their messages.
type socket struct {
	listener net.Listener
	running  sync.WaitGroup
	closing  chan struct{} // closed with the socket

	mutex sync.Mutex
	peers map[*peer]struct{}
	over  bool
}

// peer is one connection with the messages that wait for it.
type peer struct {
	*conn
	waiting chan []frame

	mutex    sync.Mutex
	prefixes map[string]int // number of subscriptions per topic prefix
}

func listen(address, socketType string, serve func(*socket, *peer)) (*socket, error) {
	listener, err := net.Listen("tcp", strings.TrimPrefix(address, "tcp://"))
	if err != nil {
		return nil, err
	}
	s := &socket{listener: listener, peers: map[*peer]struct{}{}, closing: make(chan struct{})}
	s.running.Add(1)
	go s.accept(socketType, serve)
	return s, nil
}

// accept accepts peers until the socket is closed. An error of the system delays it.
func (s *socket) accept(socketType string, serve func(*socket, *peer)) {
	defer s.running.Done()
	for wait := time.Duration(0); ; {
		raw, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files: it passes when others close theirs
			if wait = nextWait(wait); s.sleep(wait) {
				continue
			}
			return
		}
		wait = 0
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			defer raw.Close()
			if c, err := handshake(raw, socketType); err == nil {
				s.servePeer(&peer{conn: c, waiting: make(chan []frame, maxWaiting), prefixes: map[string]int{}}, serve)
			}
		}()
	}
}

const (
	minAcceptWait = 5 * time.Millisecond
	maxAcceptWait = time.Second
)

// nextWait doubles the time until the next try.
func nextWait(wait time.Duration) time.Duration {
	if wait = 2 * wait; wait < minAcceptWait {
		return minAcceptWait
	}
	if wait > maxAcceptWait {
		return maxAcceptWait
	}
	return wait
}

// sleep waits; it returns false if the socket was closed meanwhile.
func (s *socket) sleep(wait time.Duration) bool {
	select {
	case <-s.closing:
		return false
	case <-time.After(wait):
		return true
	}
}

// servePeer serves a peer: one goroutine writes waiting messages, while this one reads.
func (s *socket) servePeer(p *peer, serve func(*socket, *peer)) {
	if !s.join(p) {
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		defer p.Close()
		for frames := range p.waiting {
			if p.SetWriteDeadline(time.Now().Add(s.writeTimeout())) != nil || p.write(frames) != nil {
				return
			}
		}
	}()
	serve(s, p)
	s.leave(p)
	<-written
}

// writeTimeout returns the timeout of a write.
func (s *socket) writeTimeout() time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.over {
		return closeTime
	}
	return writeTime
}

func (s *socket) join(p *peer) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.over || len(s.peers) >= maxPeers {
		return false
	}
	s.peers[p] = struct{}{}
	return true
}

// leave ends the writer of a peer. It is called once for each peer that joined.
func (s *socket) leave(p *peer) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, there := s.peers[p]; there {
		delete(s.peers, p)
		close(p.waiting)
	}
}

// close writes the waiting messages and ends all connections.
func (s *socket) close() {
	close(s.closing)
	_ = s.listener.Close()
	s.mutex.Lock()
	s.over = true
	for p := range s.peers {
		delete(s.peers, p)
		close(p.waiting)
	}
	s.mutex.Unlock()
	s.running.Wait()
}

// offer queues a message unless the queue of the peer is full. The caller holds the mutex of the socket.
func (p *peer) offer(frames []frame) {
	select {
	case p.waiting <- frames:
	default:
	}
}

// answerPing answers the keep-alive message of a peer.
func (s *socket) answerPing(p *peer, f frame) {
	const pingHead = len("\x04PING") + 2 // the name and the time to live
	if nameOf(f) != "PING" || len(f.body) < pingHead {
		return
	}
	s.send(p, []frame{command("PONG", f.body[pingHead:])})
}

func (s *socket) send(p *peer, frames []frame) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, there := s.peers[p]; there {
		p.offer(frames)
	}
}

// Publisher is a PUB socket. Safe for concurrent use.
type Publisher struct{ *socket }

// Publish starts listening; port 0 takes a free port.
func Publish(address string) (*Publisher, error) {
	s, err := listen(address, "PUB", follow)
	return &Publisher{s}, err
}

// Address returns the address that the socket listens on.
func (p *Publisher) Address() string { return p.listener.Addr().String() }

// Send sends a message to every peer subscribed to its topic, the first part. It never waits.
func (p *Publisher) Send(parts ...[]byte) {
	frames := message(parts)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for subscriber := range p.peers {
		if subscriber.wants(parts[0]) {
			subscriber.offer(frames)
		}
	}
}

// Close writes the waiting messages and ends the socket.
func (p *Publisher) Close() { p.close() }

// follow handles subscriptions: 1 or 0 and a prefix, as a message, or a command of ZMTP 3.1.
func follow(s *socket, subscriber *peer) {
	onCommand := func(f frame) {
		switch name := nameOf(f); name {
		case "SUBSCRIBE":
			subscriber.subscribe(f.body[1+len(name):], 1)
		case "CANCEL":
			subscriber.subscribe(f.body[1+len(name):], -1)
		default:
			s.answerPing(subscriber, f)
		}
	}
	for {
		parts, err := subscriber.readMessage(onCommand)
		if err != nil {
			return
		}
		if subscription := parts[0]; len(subscription) > 0 && subscription[0] <= 1 {
			subscriber.subscribe(subscription[1:], 2*int(subscription[0])-1)
		}
	}
}

const maxPrefixes = 1024

func (p *peer) subscribe(prefix []byte, change int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	key := string(prefix)
	if p.prefixes[key] += change; p.prefixes[key] <= 0 {
		delete(p.prefixes, key)
	} else if len(p.prefixes) > maxPrefixes {
		delete(p.prefixes, key)
	}
}

func (p *peer) wants(topic []byte) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for prefix := range p.prefixes {
		if bytes.HasPrefix(topic, []byte(prefix)) {
			return true
		}
	}
	return false
}

// Router is a ROUTER socket that answers requests. Safe for concurrent use.
type Router struct{ *socket }

// Answer starts listening. For each message of a peer, `answers` passes the replies to `reply`.
func Answer(address string, answers func(question [][]byte, reply func(parts ...[]byte))) (*Router, error) {
	s, err := listen(address, "ROUTER", func(s *socket, p *peer) {
		for {
			question, err := p.readMessage(func(f frame) { s.answerPing(p, f) })
			if err != nil {
				return
			}
			answers(question, func(parts ...[]byte) { s.send(p, message(parts)) })
		}
	})
	return &Router{s}, err
}

// Address returns the address that the socket listens on.
func (r *Router) Address() string { return r.listener.Addr().String() }

// Close writes the waiting messages and ends the socket.
func (r *Router) Close() { r.close() }
