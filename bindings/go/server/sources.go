package server

import (
	"net"
	"net/http"
)

// Endpoints for routers that match prompts with page events: the model, its page size, and the addresses of
// its events. They need no key, like the metrics.

// PageSource holds the addresses of a model's page events.
type PageSource struct {
	Events string // HOST:PORT
	Replay string // HOST:PORT, or "" if there is none
	Topic  string
}

type serverInfoBody struct {
	Model     string `json:"model_id"`
	BlockSize int    `json:"kv_block_size"`
}

// pageSourceBody uses the names of vLLM's settings for events.
type pageSourceBody struct {
	Endpoint  string `json:"endpoint"`
	Replay    string `json:"replay_endpoint,omitempty"`
	Topic     string `json:"topic"`
	Publisher string `json:"publisher"`
	Encoding  string `json:"encoding"`
	Schema    int    `json:"schema_version"`
	Enabled   bool   `json:"enable_kv_cache_events"`
}

// publishedModel returns the model that routers see. They support one model per server.
func publishedModel(engine Engine) (name string, source PageSource, failure *Failure) {
	manager, is := engine.(Manager)
	if !is {
		return "", source, notFound("no_page_events", "page events are not published")
	}
	sources := manager.PageSources()
	if len(sources) != 1 {
		return "", source, notFound("no_page_events",
			"routers support one model per server, but page events of %d are published; set page_events for only one", len(sources))
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
		s.fail(w, r, unavailable(0, "the model %q is not loaded, so its page size is unknown; set preload", name))
		return
	}
	_ = answer(w, serverInfoBody{name, load.PageTokens})
}

// pageSources returns a source for each rank; there is only rank 0.
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

// endpoint returns an address in ZeroMQ's format. If the socket listens on all interfaces, the host is "*", and
// routers put the server's host in its place.
func endpoint(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return "tcp://*:" + port
	}
	return "tcp://" + address
}
