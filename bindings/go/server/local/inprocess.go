package local

import (
	"io"
	"net/http"

	"quire.dev/quire/server"
)

// InProcess serves requests with models of this process. A program can mount it as an http.Handler, or send
// requests through Client. Safe for concurrent use.
type InProcess struct {
	*server.Server
	engine *Engine
}

// Open creates the handler of a configuration, which needs only its models. A nil log discards the log.
func Open(config *server.Config, log *server.Logger) (*InProcess, error) {
	if log == nil {
		log = server.NewLogger(io.Discard)
	}
	if err := config.Check(); err != nil {
		return nil, err
	}
	engine, err := New(config, log)
	if err != nil {
		return nil, err
	}
	return &InProcess{Server: server.New(engine, config, log), engine: engine}, nil
}

// Client sends every request to this process, for any address and without a socket. It can be passed to the
// official clients of OpenAI and Anthropic. A request whose context ends, or whose body is closed, ends its
// job within a step.
func (p *InProcess) Client() *http.Client { return &http.Client{Transport: server.Transport(p)} }

// Close ends running requests and frees the models.
func (p *InProcess) Close() { p.engine.Close() }
