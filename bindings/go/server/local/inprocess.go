package local

import (
	"io"
	"net/http"

	"quire.dev/quire/server"
)

// InProcess answers the server's requests by models of this process. It is an http.Handler, to be mounted where a program
// likes; what a program would ask a server is asked of Client. Any goroutine.
type InProcess struct {
	*server.Server
	engine *Engine
}

// Open makes the handler of a configuration, of which the models alone are needed. A nil log keeps none.
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

// Client asks this process, whatever address is asked for, without a socket: an option of the official clients of OpenAI and
// Anthropic takes it. A request whose context ends, or whose body is closed, ends its job within a step.
func (p *InProcess) Client() *http.Client { return &http.Client{Transport: server.Transport(p)} }

// Close ends what runs and frees the models.
func (p *InProcess) Close() { p.engine.Close() }
