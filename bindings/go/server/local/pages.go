package local

import (
	"context"
	"os"
	"reflect"
	"strings"
	"sync"

	"quire.dev/quire"
	"quire.dev/quire/server"
	"quire.dev/quire/server/internal/kvevents"
)

// pagePublisher publishes page events of one model of the configuration to routers. It lives as long as its
// description in the configuration; the model may be unloaded and loaded meanwhile.
type pagePublisher struct {
	config    server.PageEvents
	topic     string
	publisher *kvevents.Publisher
	log       *server.Logger

	mutex sync.Mutex
	end   context.CancelFunc // ends the reader of the current cache; nil if there is none
	ended chan struct{}
}

// configurePages starts and stops publishers as the configuration defines. The caller holds the mutex.
func (e *Engine) configurePages(config *server.Config) {
	for name, p := range e.pages {
		if described := config.Models[name].PageEvents; described == nil || !reflect.DeepEqual(p.config, *described) {
			p.close()
			delete(e.pages, name)
		}
	}
	for name, described := range config.Models {
		if described.PageEvents == nil || e.pages[name] != nil {
			continue
		}
		if p := newPagePublisher(name, *described.PageEvents, e.log); p != nil {
			e.pages[name] = p
			e.followPages(e.models[name])
		}
	}
}

// PageSources returns the addresses of page events by model.
func (e *Engine) PageSources() map[string]server.PageSource {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	sources := map[string]server.PageSource{}
	for name, p := range e.pages {
		events, replay := p.publisher.Addresses()
		sources[name] = server.PageSource{Events: events, Replay: replay, Topic: p.topic}
	}
	return sources
}

// followPages publishes the page events of a resident model. The caller holds the mutex.
func (e *Engine) followPages(s *slot) {
	p := e.pages[s.name]
	if p == nil || s.current == nil {
		return
	}
	if err := p.follow(e.runtime, s.current.cache); err != nil {
		e.log.Error("page events are not published", server.Fields{"model": s.name, "error": err.Error()})
	}
}

// newPagePublisher starts listening. If it cannot, it logs the reason, and the model is served without page
// events.
func newPagePublisher(name string, config server.PageEvents, log *server.Logger) *pagePublisher {
	topic := config.Topic
	if topic == "" {
		topic = "kv@{model}"
	}
	options := kvevents.Options{Listen: config.Listen, Replay: config.Replay,
		Topic: strings.ReplaceAll(os.ExpandEnv(topic), "{model}", name)}
	publisher, err := kvevents.NewPublisher(options)
	if err != nil {
		log.Error("page events are not published", server.Fields{"model": name, "error": err.Error()})
		return nil
	}
	events, replay := publisher.Addresses()
	log.Info("page events are published", server.Fields{"model": name, "address": events, "replay": replay,
		"topic": options.Topic})
	return &pagePublisher{config: config, topic: options.Topic, publisher: publisher, log: log}
}

// follow publishes the events of this cache instead of those of another.
func (p *pagePublisher) follow(runtime *quire.Runtime, cache *quire.Cache) error {
	stats, err := cache.Stats()
	if err != nil {
		return err
	}
	queue, err := runtime.NewQueue()
	if err != nil {
		return err
	}
	reader := &pageReader{cache: cache, queue: queue, size: int(stats.PageTokens), namespaces: p.config.Namespaces,
		send: p.publisher.Send}
	if err := reader.begin(); err != nil {
		_ = queue.Close()
		return err
	}
	p.stopReader()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	p.end, p.ended = end, ended
	go func() {
		defer close(ended)
		defer queue.Close()
		if err := reader.run(ctx); err != nil && ctx.Err() == nil {
			p.log.Error("page events are no longer published", server.Fields{"error": err.Error()})
		}
	}()
	return nil
}

// stopReader stops the reader and waits for its end.
func (p *pagePublisher) stopReader() {
	p.mutex.Lock()
	end, ended := p.end, p.ended
	p.end = nil
	p.mutex.Unlock()
	if end != nil {
		end()
		<-ended
	}
}

func (p *pagePublisher) close() {
	p.stopReader()
	p.publisher.Close()
}

// pageReader converts the events of one cache to batches. Each namespace has its own subscription. If one
// loses events, all begin anew, since the published Cleared event applies to all pages.
type pageReader struct {
	cache      *quire.Cache
	queue      *quire.Queue
	size       int
	namespaces []string // empty means all
	send       func([]kvevents.Event)
	followed   []following
}

// following is the state of the subscription of one namespace.
type following struct {
	next  int64
	valid bool // false until its CLEARED event has arrived
}

func (r *pageReader) begin() error {
	r.followed = make([]following, len(r.namespaces))
	if len(r.namespaces) == 0 {
		r.followed = make([]following, 1)
		return r.cache.FollowPages(r.queue, 0)
	}
	for i, namespace := range r.namespaces {
		if err := r.cache.FollowNamespacePages(namespace, r.queue, uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// Maximum number of events of one batch.
const maxBatch = 256

func (r *pageReader) run(ctx context.Context) error {
	r.send([]kvevents.Event{{Kind: kvevents.Cleared}})
	for {
		events, err := r.queue.Drain(ctx, maxBatch)
		if err != nil {
			return err
		}
		batch, lost := r.read(events)
		if lost {
			if err := r.begin(); err != nil {
				return err
			}
			batch = append(batch, kvevents.Event{Kind: kvevents.Cleared})
		}
		if len(batch) > 0 {
			r.send(batch)
		}
	}
}

// read returns the events to publish, and whether events were lost.
func (r *pageReader) read(events []quire.Event) (batch []kvevents.Event, lost bool) {
	for _, event := range events {
		f := &r.followed[event.UserData]
		switch {
		case event.PageChange == quire.PageCleared && !f.valid:
			*f = following{event.PageNumber + 1, true} // the subscription begins
			continue
		case !f.valid:
			continue // an event of an earlier subscription
		case event.PageNumber != f.next && event.PageChange != quire.PageCleared:
			return batch, true
		}
		f.next = event.PageNumber + 1
		batch = append(batch, r.publish(event))
	}
	return batch, false
}

var media = map[quire.PageMedium]kvevents.Medium{quire.MediumDevice: kvevents.Device, quire.MediumHost: kvevents.Host,
	quire.MediumFile: kvevents.File}

func (r *pageReader) publish(event quire.Event) kvevents.Event {
	kind := kvevents.Cleared
	switch event.PageChange {
	case quire.PageStored:
		kind = kvevents.Stored
	case quire.PageRemoved:
		kind = kvevents.Removed
	}
	return kvevents.Event{Kind: kind, Hash: event.PageHash, Parent: event.PageParent, Tokens: event.Tokens,
		PageSize: r.size, Medium: media[event.PageMedium], Namespace: event.PageNamespace}
}
