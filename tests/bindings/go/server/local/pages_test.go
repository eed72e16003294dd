// Page events as a ZeroMQ subscriber receives them. The subscriber is written here after the specifications
// of ZMTP 3 and msgpack.
package local_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"quire.dev/quire/server"
)

// zmtpPeer is a socket of type SUB or DEALER.
type zmtpPeer struct {
	t   *testing.T
	raw net.Conn
	in  *bufio.Reader
}

func dial(t *testing.T, address, socketType string) *zmtpPeer {
	t.Helper()
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
	p := &zmtpPeer{t, raw, bufio.NewReader(raw)}
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xFF, 0x7F, 3
	copy(greeting[12:], "NULL")
	ready := "\x05READY\x0bSocket-Type\x00\x00\x00" + string(rune(len(socketType))) + socketType
	p.write(greeting, append([]byte{4, byte(len(ready))}, ready...))
	if _, err := io.ReadFull(p.in, greeting); err != nil {
		t.Fatal(err)
	}
	if p.frame(); t.Failed() {
		t.Fatal("no READY")
	}
	return p
}

func (p *zmtpPeer) write(pieces ...[]byte) {
	p.t.Helper()
	for _, piece := range pieces {
		if _, err := p.raw.Write(piece); err != nil {
			p.t.Fatal(err)
		}
	}
}

// frame reads one frame; more is true if another frame of the same message follows.
func (p *zmtpPeer) frame() (body []byte, more bool) {
	p.t.Helper()
	flags, err := p.in.ReadByte()
	size := make([]byte, 1+7*(flags>>1&1))
	if err == nil {
		_, err = io.ReadFull(p.in, size)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	body = make([]byte, binary.BigEndian.Uint64(append(make([]byte, 8-len(size)), size...)))
	if _, err := io.ReadFull(p.in, body); err != nil {
		p.t.Fatal(err)
	}
	return body, flags&1 != 0
}

func (p *zmtpPeer) message() [][]byte {
	p.t.Helper()
	for parts := [][]byte{}; ; {
		body, more := p.frame()
		if parts = append(parts, body); !more {
			return parts
		}
	}
}

// unpack reads one value of msgpack.
func unpack(t *testing.T, in []byte) (value interface{}, rest []byte) {
	t.Helper()
	kind, in := in[0], in[1:]
	number := func(size int) uint64 {
		n := binary.BigEndian.Uint64(append(make([]byte, 8-size), in[:size]...))
		in = in[size:]
		return n
	}
	list := func(length int) interface{} {
		values := make([]interface{}, length)
		for i := range values {
			values[i], in = unpack(t, in)
		}
		return values
	}
	text := func(length int) interface{} {
		value := string(in[:length])
		in = in[length:]
		return value
	}
	switch {
	case kind < 0x80:
		return uint64(kind), in
	case kind>>4 == 8:
		fields := map[string]interface{}{}
		for ; kind > 0x80; kind-- {
			var name interface{}
			name, in = unpack(t, in)
			fields[name.(string)], in = unpack(t, in)
		}
		return fields, in
	case kind>>4 == 9:
		return list(int(kind & 15)), in
	case kind>>5 == 5:
		return text(int(kind & 31)), in
	case kind == 0xc0:
		return nil, in
	case kind == 0xcb:
		return math.Float64frombits(number(8)), in
	case kind >= 0xcc && kind <= 0xcf:
		return number(1 << (kind - 0xcc)), in
	case kind == 0xd9:
		return text(int(number(1))), in
	case kind == 0xdc:
		return list(int(number(2))), in
	}
	t.Fatalf("a value of the kind %x", kind)
	return nil, nil
}

// knownPages are the pages that a router would find in its index.
type knownPages struct {
	t      *testing.T
	tokens map[uint64][]interface{}
	clears int
	next   uint64
}

func (k *knownPages) take(number, batch []byte) {
	k.t.Helper()
	if n := binary.BigEndian.Uint64(number); n != k.next {
		k.t.Fatalf("batch %d comes where %d was to come", n, k.next)
	}
	k.next++
	value, rest := unpack(k.t, batch)
	if len(rest) != 0 {
		k.t.Fatalf("%d bytes after the batch", len(rest))
	}
	for _, entry := range value.([]interface{})[1].([]interface{}) {
		event := entry.(map[string]interface{})
		switch event["type"] {
		case "BlockStored":
			if parent, continues := event["parent_block_hash"].(uint64); continues && k.tokens[parent] == nil {
				k.t.Fatalf("a page continues one that is not there: %v", event)
			}
			if event["medium"] != "GPU" || int(event["block_size"].(uint64)) != len(event["token_ids"].([]interface{})) {
				k.t.Fatalf("the page %v", event)
			}
			k.tokens[event["block_hashes"].([]interface{})[0].(uint64)] = event["token_ids"].([]interface{})
		case "BlockRemoved":
			delete(k.tokens, event["block_hashes"].([]interface{})[0].(uint64))
		case "AllBlocksCleared":
			k.tokens = map[uint64][]interface{}{}
			k.clears++
		default:
			k.t.Fatalf("the event %v", event)
		}
	}
}

// catchUp requests all batches.
func (k *knownPages) catchUp(replay string) {
	k.t.Helper()
	asking := dial(k.t, replay, "DEALER")
	asking.write([]byte{1, 0}, append([]byte{0, 8}, make([]byte, 8)...))
	for parts := asking.message(); len(parts[3]) > 0; parts = asking.message() {
		if len(parts) != 4 || len(parts[0]) != 0 {
			k.t.Fatalf("%d parts of an answer", len(parts))
		}
		k.take(parts[2], parts[3])
	}
}

// published returns the number of batches.
func published(t *testing.T, replay string) uint64 {
	all := &knownPages{t: t, tokens: map[uint64][]interface{}{}}
	all.catchUp(replay)
	return all.next
}

// publishedAt returns the addresses in the log.
func (f *fixture) publishedAt() (events, replay string) {
	f.t.Helper()
	for _, line := range strings.Split(f.log.String(), "\n") {
		var fields struct{ Message, Address, Replay string }
		if json.Unmarshal([]byte(line), &fields) == nil && fields.Message == "page events are published" {
			events, replay = fields.Address, fields.Replay
		}
	}
	if events == "" {
		f.t.Fatal("page events are not published:", f.log.String())
	}
	return events, replay
}

func withPageEvents(namespaces ...string) func(*server.Config) {
	return func(config *server.Config) {
		model := config.Models["story"]
		model.CacheTokens = 2048 // eight pages
		model.PageEvents = &server.PageEvents{Listen: "127.0.0.1:0", Replay: "127.0.0.1:0", Topic: "kv@pod@{model}",
			Namespaces: namespaces}
		config.Models["story"] = model
	}
}

func (f *fixture) complete(first int) {
	f.t.Helper()
	text := fmt.Sprint("Chapter ", first, ". ", strings.Repeat(fmt.Sprint("It was the day number ", first, " and nothing came. "), 50))
	body, _ := json.Marshal(map[string]interface{}{"model": "story", "prompt": text, "max_tokens": 1})
	var read answer
	f.post("/v1/completions", string(body), &read)
}

func TestASubscriberFollowsThePagesOfTheCache(t *testing.T) {
	f := start(t, withPageEvents())
	events, replay := f.publishedAt()
	f.complete(0) // loads the model
	known := &knownPages{t: t, tokens: map[uint64][]interface{}{}}
	known.catchUp(replay)
	if known.clears == 0 {
		t.Fatal("what is published does not begin with AllBlocksCleared")
	}
	subscriber := dial(t, events, "SUB")
	subscriber.write([]byte{0, 4, 1}, []byte("kv@"))
	other := dial(t, events, "SUB")
	other.write([]byte{0, 2, 1}, []byte("x"))
	time.Sleep(100 * time.Millisecond) // until the subscriptions have arrived
	for i := 1; i < 6; i++ {
		f.complete(i)
	}
	before := known.next
	for published(f.t, replay) > known.next {
		parts := subscriber.message()
		if len(parts) != 3 || string(parts[0]) != "kv@pod@story" {
			t.Fatalf("a message %q", parts[0])
		}
		known.take(parts[1], parts[2])
	}
	if len(known.tokens) == 0 || len(known.tokens) > 8 || known.next == before {
		t.Fatalf("a subscriber knows %d pages by %d batches", len(known.tokens), known.next)
	}
	_ = other.raw.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := other.in.ReadByte(); err == nil {
		t.Fatal("a topic comes that was not asked for")
	}
}

// A router looks up a prompt by the tokens to which a replica renders it.
func TestARenderedPromptHasTheTokensOfPageEvents(t *testing.T) {
	f := start(t, withPageEvents())
	_, replay := f.publishedAt()
	text := strings.Repeat("It was a day and nothing came. ", 50)
	body, _ := json.Marshal(map[string]interface{}{"model": "story", "prompt": text, "max_tokens": 1})
	var read answer
	f.post("/v1/completions", string(body), &read)
	var prompts []struct {
		Tokens []uint64 `json:"token_ids"`
	}
	f.post("/v1/completions/render", string(body), &prompts)
	if len(prompts) != 1 || len(prompts[0].Tokens) != read.Usage.Prompt {
		t.Fatalf("%d prompts, of %d tokens", len(prompts), read.Usage.Prompt)
	}
	first := fmt.Sprint(prompts[0].Tokens[:256])
	f.eventually("a page with the beginning of the prompt is published", func() bool {
		known := &knownPages{t: t, tokens: map[uint64][]interface{}{}}
		known.catchUp(replay)
		for _, tokens := range known.tokens {
			if fmt.Sprint(tokens) == first {
				return true
			}
		}
		return false
	})
}

func TestTheLogNamesPublishedOwnersAndAddresses(t *testing.T) {
	f := start(t, withPageEvents())
	events, replay := f.publishedAt()
	if status, _ := f.get("/get_server_info"); status != 503 {
		t.Fatalf("a model that is not loaded has pages of a known size: %d", status)
	}
	f.complete(0) // loads the model
	var info struct {
		Model string `json:"model_id"`
		Size  int    `json:"kv_block_size"`
	}
	status, body := f.get("/get_server_info")
	if err := json.Unmarshal(body, &info); err != nil || status != 200 || info.Model != "story" || info.Size != 256 {
		t.Fatalf("%d %s", status, body)
	}
	status, body = f.get("/kv_event_sources")
	wanted := fmt.Sprintf(`{"0":{"endpoint":"tcp://%s","replay_endpoint":"tcp://%s","topic":"kv@pod@story",`+
		`"publisher":"zmq","encoding":"msgpack","schema_version":1,"enable_kv_cache_events":true}}`, events, replay)
	if status != 200 || string(body) != wanted {
		t.Fatalf("%d %s instead of %s", status, body, wanted)
	}
}

func TestAWildcardHostIsLeftToTheRouter(t *testing.T) {
	f := start(t, func(config *server.Config) {
		withPageEvents()(config)
		config.Models["story"].PageEvents.Listen = ":0"
	})
	if _, body := f.get("/kv_event_sources"); !strings.Contains(string(body), `"endpoint":"tcp://*:`) {
		t.Fatalf("%s", body)
	}
}

func TestDisabledPageEventsAreReported(t *testing.T) {
	f := start(t, func(*server.Config) {})
	for _, path := range []string{"/get_server_info", "/kv_event_sources"} {
		if status, body := f.get(path); status != 404 || !strings.Contains(string(body), "page_events") {
			t.Fatalf("%s: %d %s", path, status, body)
		}
	}
}

func TestUnpublishedOwnersEmitNoPageEvents(t *testing.T) {
	f := start(t, withPageEvents("somebody else"))
	_, replay := f.publishedAt()
	f.complete(0)
	f.complete(1)
	known := &knownPages{t: t, tokens: map[uint64][]interface{}{}}
	known.catchUp(replay)
	if len(known.tokens) != 0 {
		t.Fatalf("%d pages are told", len(known.tokens))
	}
}

func TestAPeerOfAnotherProtocolIsDisconnected(t *testing.T) {
	f := start(t, withPageEvents())
	events, _ := f.publishedAt()
	for _, hello := range []string{"GET / HTTP/1.1\r\n\r\n" + strings.Repeat("x", 64), strings.Repeat("\xff", 200)} {
		raw, err := net.Dial("tcp", events)
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = raw.Write([]byte(hello))
		if _, err := io.Copy(io.Discard, raw); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("it is not shut out: %v", err)
		}
		raw.Close()
	}
	f.complete(0)
}
