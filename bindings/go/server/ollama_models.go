package server

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Models in ollama's format, and the requests about them that this server refuses.

type ollamaModel struct {
	Name       string        `json:"name"`
	Model      string        `json:"model"`
	ModifiedAt time.Time     `json:"modified_at"`
	Size       int64         `json:"size"`
	Digest     string        `json:"digest"`
	Details    ollamaDetails `json:"details"`
}

// ollamaRunning is a resident model.
type ollamaRunning struct {
	ollamaModel
	ExpiresAt     time.Time `json:"expires_at"`
	SizeVRAM      int64     `json:"size_vram"`
	ContextLength int64     `json:"context_length"`
}

type ollamaDetails struct {
	ParentModel       string   `json:"parent_model"`
	Format            string   `json:"format"`
	Family            string   `json:"family"`
	Families          []string `json:"families"`
	ParameterSize     string   `json:"parameter_size"`
	QuantizationLevel string   `json:"quantization_level"`
}

func detailsOf(d *Description) ollamaDetails {
	out := ollamaDetails{Format: d.Format, Family: d.Family, Families: []string{}, ParameterSize: roundedCount(d.Parameters),
		QuantizationLevel: d.Quantization}
	if d.Family != "" {
		out.Families = append(out.Families, d.Family)
	}
	return out
}

// roundedCount returns a number of parameters as people write it, such as "8.0B"; "" if it is unknown.
func roundedCount(count int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if count >= unit.size {
			return fmt.Sprintf("%.1f%s", float64(count)/float64(unit.size), unit.name)
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprint(count)
}

// taggedName returns a name with a tag, as ollama lists all names.
func taggedName(name string) string {
	if strings.Contains(name, ":") {
		return name
	}
	return name + ":latest"
}

func ollamaModelOf(name string, d *Description) ollamaModel {
	tagged := taggedName(name)
	return ollamaModel{tagged, tagged, d.Modified.UTC(), d.Bytes, d.Digest, detailsOf(d)}
}

func (s *Server) ollamaTags(w http.ResponseWriter, r *http.Request) {
	s.listForKey(w, r, func(names []string) interface{} {
		models := []ollamaModel{}
		for _, name := range names {
			description := s.describe(s.config.Load().target(name))
			models = append(models, ollamaModelOf(name, &description))
		}
		return map[string]interface{}{"models": models}
	})
}

// ollamaPS lists the resident models. One that is never unloaded expires in a hundred years.
func (s *Server) ollamaPS(w http.ResponseWriter, r *http.Request) {
	s.listForKey(w, r, func(names []string) interface{} {
		models := []ollamaRunning{}
		for _, name := range names {
			description := s.describe(s.config.Load().target(name))
			if !description.Resident {
				continue
			}
			expires := description.Expires
			if expires.IsZero() {
				expires = time.Now().AddDate(100, 0, 0)
			}
			models = append(models, ollamaRunning{ollamaModelOf(name, &description), expires.UTC(), description.DeviceBytes,
				description.ContextTokens})
		}
		return map[string]interface{}{"models": models}
	})
}

// listForKey answers with a list of the models that the client's key may use.
func (s *Server) listForKey(w http.ResponseWriter, r *http.Request, list func(names []string) interface{}) {
	key, failure := s.admission.authenticate(r)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	_ = answer(w, list(s.modelNames(key)))
}

// ollamaShowRequest is the body of /api/show.
type ollamaShowRequest struct {
	Model string `json:"model"`
	Name  string `json:"name"` // older name of `model`
}

// ollamaShow describes a model without loading it.
func (s *Server) ollamaShow(c *call) error {
	var request ollamaShowRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if request.Model == "" {
		request.Model = request.Name
	}
	name := ollamaModelName(c.config, request.Model)
	target := c.config.target(name)
	if _, known := c.config.Models[target]; !known || !c.key.mayUse(target) {
		return notFound("model_not_found", "model %q not found", request.Model)
	}
	d := s.describe(target)
	capabilities := []string{"completion"}
	for _, further := range []struct {
		name string
		has  bool
	}{{"tools", d.Calls}, {"thinking", d.Reasons}, {"insert", d.Infills}} {
		if further.has {
			capabilities = append(capabilities, further.name)
		}
	}
	return answer(c, map[string]interface{}{"modelfile": "FROM " + taggedName(name), "parameters": "",
		"template": d.Template, "details": detailsOf(&d), "model_info": modelInfo(&d), "capabilities": capabilities,
		"modified_at": d.Modified.UTC()})
}

// modelInfo returns the figures of a model under GGUF's names.
func modelInfo(d *Description) map[string]interface{} {
	family := d.Family
	if family == "" {
		family = "unknown"
	}
	return map[string]interface{}{"general.architecture": family, "general.parameter_count": d.Parameters,
		family + ".context_length": d.ContextTokens, family + ".block_count": d.Layers,
		family + ".embedding_length": d.HiddenSize, family + ".attention.head_count": d.Heads,
		family + ".attention.head_count_kv": d.KVHeads, family + ".vocab_size": d.VocabSize}
}

func (s *Server) ollamaVersion(w http.ResponseWriter, _ *http.Request) {
	_ = answer(w, map[string]string{"version": ollamaVersion, "quire": s.version()})
}

// ollamaRefusal returns the handler of a request that changes the models of a server.
func (s *Server) ollamaRefusal(reason string) func(*call) error {
	return func(*call) error {
		return &Failure{Status: http.StatusForbidden, Kind: "invalid_request_error", Code: "not_supported",
			Message: reason + "; the configuration of the server lists its models"}
	}
}

func (s *Server) ollamaRoutes() {
	s.post("/api/chat", s.ollamaChat)
	s.post("/api/generate", s.ollamaGenerate)
	s.post("/api/embed", s.ollamaEmbed)
	s.post("/api/embeddings", s.ollamaEmbeddings)
	s.post("/api/show", s.ollamaShow)
	s.get("/api/tags", s.ollamaTags)
	s.get("/api/ps", s.ollamaPS)
	s.get("/api/version", s.ollamaVersion)
	s.post("/api/pull", s.ollamaPull)
	s.post("/api/push", s.ollamaRefusal("this server does not push models"))
	s.post("/api/create", s.ollamaRefusal("this server does not create models"))
	s.post("/api/copy", s.ollamaRefusal("this server does not copy models"))
	s.admitted(http.MethodDelete, "/api/delete", s.ollamaRefusal("this server does not delete models"))
}
