package server

import (
	"net"
	"net/http"
)

// What routers ask that look for prompts in page events: whose pages they are, how long, and where events are published.
// They ask without a key, as they ask for figures.

// PageSource says where the page events of a model are published.
type PageSource struct {
	Events string // HOST:PORT
	Replay string // likewise; "": nowhere
	Topic  string
}

type serverInfoBody struct {
	Model     string `json:"model_id"`
	BlockSize int    `json:"kv_block_size"`
}

// pageSourceBody has the names of vLLM's settings of events.
type pageSourceBody struct {
	Endpoint  string `json:"endpoint"`
	Replay    string `json:"replay_endpoint,omitempty"`
	Topic     string `json:"topic"`
	Publisher string `json:"publisher"`
	Encoding  string `json:"encoding"`
	Schema    int    `json:"schema_version"`
	Enabled   bool   `json:"enable_kv_cache_events"`
}

// publishedModel is the model that routers are told of. They know one of a server.
func publishedModel(engine Engine) (name string, source PageSource, failure *Failure) {
	manager, is := engine.(Manager)
	if !is {
		return "", source, notFound("no_page_events", "page events are not published")
	}
	sources := manager.PageSources()
	if len(sources) != 1 {
		return "", source, notFound("no_page_events",
			"routers know one model of a server, and page events of %d are published; give page_events to one", len(sources))
	}
	for name, source = range sources {
	}
	return name, source, nil
}

func (s *Server) serverInfo(w http.ResponseWriter, r *http.Request) {
	name, _, failure := publishedModel(s.engine)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	load, resident := s.engine.(Manager).Loads()[name]
	if !resident {
		s.fail(w, r, unavailable(0, "the model %q is not loaded, so that the size of its pages is not known; preload it", name))
		return
	}
	_ = answer(w, serverInfoBody{name, load.PageTokens})
}

// pageSources answers with a source for each rank: there is one, 0.
func (s *Server) pageSources(w http.ResponseWriter, r *http.Request) {
	_, source, failure := publishedModel(s.engine)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	body := pageSourceBody{Endpoint: endpoint(source.Events), Topic: source.Topic, Publisher: "zmq", Encoding: "msgpack",
		Schema: 1, Enabled: true}
	if source.Replay != "" {
		body.Replay = endpoint(source.Replay)
	}
	_ = answer(w, map[string]pageSourceBody{"0": body})
}

// endpoint is an address as ZeroMQ has it. A socket of all interfaces has the host *, for which routers take that by
// which they know the server.
func endpoint(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return "tcp://*:" + port
	}
	return "tcp://" + address
}
