package server

import (
	"context"
	"net/http"
	"strings"

	"quire.dev/quire/server/internal/hubcache"
)

// Puller brings models from a hub and serves them.
type Puller interface {
	// Pull brings the model ORG/NAME[:FILE or quantization][@revision] with pull_command of the configuration, and adds it
	// to the models under this name. Calls progress from time to time, in the goroutine of the caller. Returns when ctx
	// ends; what has arrived remains for the next call.
	Pull(ctx context.Context, command, name string, progress func(PullProgress)) error
}

// PullProgress counts the bytes of all files of a model.
type PullProgress struct {
	Completed int64 `json:"completed"` // those of earlier pulls included
	Total     int64 `json:"total"`
	Checking  bool  `json:"checking"` // everything has arrived, and digests are being computed
}

// SetPuller allows clients to pull models. Call it before requests are served.
func (s *Server) SetPuller(puller Puller) { s.puller = puller }

type ollamaPullRequest struct {
	Model  string `json:"model"`
	Name   string `json:"name"` // older name of `model`
	Stream *bool  `json:"stream"`
}

// ollamaPull brings a model from a hub, unless the server has it.
func (s *Server) ollamaPull(c *call) error {
	if s.puller == nil || c.config.PullCommand == "" {
		return s.ollamaRefusal("this server does not pull models: pull_command is not set")(c)
	}
	var request ollamaPullRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if request.Model == "" {
		request.Model = request.Name
	}
	if failure := s.mayPull(c); failure != nil {
		return failure
	}
	if isConfigured(c.config, ollamaModelName(c.config, request.Model)) {
		return sendPullEnd(c, &request)
	}
	name := withoutHub(strings.TrimSuffix(request.Model, ":latest"))
	if parsed, err := hubcache.Parse(name); err != nil || !strings.Contains(parsed.Repository, "/") {
		return invalid("model", "%q is neither a model of this server nor one of a hub: ORG/NAME[:FILE or quantization][@revision]",
			request.Model)
	}
	return s.pull(c, name, &request)
}

// mayPull returns why the client may not pull. Files fill the server's disk, so with keys only an administrator may.
func (s *Server) mayPull(c *call) *Failure {
	if (len(c.config.Keys) == 0 && len(c.config.Admin) == 0) || s.isAdmin(c.r) {
		return nil
	}
	failure := invalid("model", "pulling a model needs a key listed in `admin` of the configuration")
	failure.Status = http.StatusForbidden
	return failure
}

// pull may take longer than other requests, so that it ends with its client only.
func (s *Server) pull(c *call, name string, request *ollamaPullRequest) error {
	var lines *ndjson
	send := func(body map[string]interface{}) {
		if lines == nil {
			lines = newNDJSON(c)
		}
		_ = lines.send(body) // a client that has left ends the context
	}
	progress := func(PullProgress) {}
	if streamsPull(request) {
		send(map[string]interface{}{"status": "pulling manifest"})
		progress = func(at PullProgress) { send(pullLine(name, at)) }
	}
	if err := s.puller.Pull(c.r.Context(), c.config.PullCommand, name, progress); err != nil {
		return err
	}
	s.log.Info("a model was pulled", Fields{"request": c.id, "model": name})
	if lines != nil {
		send(map[string]interface{}{"status": "success"})
		return nil
	}
	return sendPullEnd(c, request)
}

func pullLine(name string, at PullProgress) map[string]interface{} {
	if at.Checking {
		return map[string]interface{}{"status": "verifying sha256 digest"}
	}
	return map[string]interface{}{"status": "pulling " + name, "digest": name, "total": at.Total, "completed": at.Completed}
}

func streamsPull(request *ollamaPullRequest) bool { return request.Stream == nil || *request.Stream }

// sendPullEnd answers that the server has the model.
func sendPullEnd(c *call, request *ollamaPullRequest) error {
	body := map[string]interface{}{"status": "success"}
	if streamsPull(request) {
		return newNDJSON(c).send(body)
	}
	return answer(c, body)
}
