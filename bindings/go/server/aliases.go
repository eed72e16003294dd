package server

import (
	"io"
	"net/http"
)

// An alias is a name for a model, which can be exchanged while requests run. Running requests finish on the
// old model. Later ones go to the new model, which is resident by then.

const maxAliasBytes = 64 << 10

// aliasRequest is the body of /admin/aliases/NAME.
type aliasRequest struct {
	Model string `json:"model"`
}

// administerAliases answers GET /admin/aliases and POST /admin/aliases/NAME with {"model": MODEL}. The name is ""
// for the former.
func (s *Server) administerAliases(w http.ResponseWriter, r *http.Request, name string) {
	switch {
	case name == "" && r.Method == http.MethodGet:
		aliases := s.config.Load().Aliases
		if aliases == nil {
			aliases = map[string]string{}
		}
		_ = answer(w, aliases)
	case name != "" && r.Method == http.MethodPost:
		target, err := readTarget(w, r)
		if err == nil {
			err = s.exchange(r, name, target)
		}
		if err != nil {
			s.fail(w, r, failureOf(err))
			return
		}
		_ = answer(w, map[string]string{"alias": name, "model": target})
	default:
		s.fail(w, r, notFound("", "the admin interface has no %s %s; GET /openapi.json lists the paths", r.Method, r.URL.Path))
	}
}

func readTarget(w http.ResponseWriter, r *http.Request) (string, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAliasBytes))
	if err != nil {
		return "", invalid("", `the body is incomplete, or larger than %d bytes; it must be {"model": NAME}`, maxAliasBytes)
	}
	var body aliasRequest
	if err := decodeBody(text, &body); err != nil {
		return "", err
	}
	if body.Model == "" {
		return "", invalid("model", `model is missing; the body must be {"model": NAME}`)
	}
	return body.Model, nil
}

// exchange loads the model and then changes the alias, so a failed load changes nothing.
func (s *Server) exchange(r *http.Request, alias, target string) error {
	if _, err := s.config.Load().withAlias(alias, target); err != nil {
		return err
	}
	model, err := s.engine.Open(r.Context(), target)
	if err != nil {
		return err
	}
	defer model.Close()
	for {
		old := s.config.Load()
		changed, err := old.withAlias(alias, target)
		if err != nil {
			return err
		}
		if s.config.CompareAndSwap(old, changed) {
			s.log.Info("an alias was changed to another model", Fields{"alias": alias, "model": target})
			return nil
		}
	}
}

// withAlias returns a configuration with one alias changed or added.
func (c *Config) withAlias(alias, target string) (*Config, error) {
	if _, is := c.Models[alias]; is {
		return nil, invalid("model", "%q is the name of a model, not of an alias; choose another name", alias)
	}
	if _, known := c.Models[target]; !known {
		return nil, notFound("model_not_found", "there is no model %q; GET /v1/models lists the models", target)
	}
	changed := *c
	changed.Aliases = map[string]string{alias: target}
	for name, model := range c.Aliases {
		if name != alias {
			changed.Aliases[name] = model
		}
	}
	return &changed, nil
}
