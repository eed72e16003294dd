package kvevents

import (
	"encoding/binary"
	"sync"
	"time"

	"quire.dev/quire/server/internal/zmtp"
)

// Options holds the addresses and the topic of a publisher.
type Options struct {
	Listen string // HOST:PORT
	Replay string // HOST:PORT where subscribers request missed batches; "" means none
	Topic  string
}

// Number of batches kept for replay.
const kept = 2048

// Publisher numbers batches from 0 and sends them to the connected subscribers. Safe for concurrent use.
type Publisher struct {
	topic  []byte
	events *zmtp.Publisher
	replay *zmtp.Router // nil if there is none

	mutex sync.Mutex
	next  uint64
	past  [kept][]byte // batch n is at index n modulo kept
}

// NewPublisher starts listening.
func NewPublisher(options Options) (*Publisher, error) {
	p := &Publisher{topic: []byte(options.Topic)}
	var err error
	if p.events, err = zmtp.Publish(options.Listen); err != nil {
		return nil, err
	}
	if options.Replay != "" {
		if p.replay, err = zmtp.Answer(options.Replay, p.answer); err != nil {
			p.events.Close()
			return nil, err
		}
	}
	return p, nil
}

// Addresses returns the addresses that it listens on; replay is "" if there is none.
func (p *Publisher) Addresses() (events, replay string) {
	if p.replay != nil {
		replay = p.replay.Address()
	}
	return p.events.Address(), replay
}

// Send publishes a batch. It never waits.
func (p *Publisher) Send(events []Event) {
	batch := pack(float64(time.Now().UnixMicro())/1e6, events)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.past[p.next%kept] = batch
	p.events.Send(p.topic, numbered(p.next), batch)
	p.next++
}

func numbered(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// answer replies with the batches from the requested number on, as they were published, and then with the
// number -1 and no data. Requests and replies begin with an empty part.
func (p *Publisher) answer(question [][]byte, reply func(parts ...[]byte)) {
	if len(question) != 2 || len(question[0]) != 0 || len(question[1]) != 8 {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	first := binary.BigEndian.Uint64(question[1])
	if p.next > kept && first < p.next-kept {
		first = p.next - kept
	}
	for n := first; n < p.next; n++ {
		reply(nil, p.topic, numbered(n), p.past[n%kept])
	}
	reply(nil, nil, numbered(^uint64(0)), nil)
}

// Close sends the waiting batches and ends the publisher.
func (p *Publisher) Close() {
	p.events.Close()
	if p.replay != nil {
		p.replay.Close()
	}
}
