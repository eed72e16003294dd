package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ollama's interface: requests of /api/chat and /api/generate. Their options are in ollama_options.go, their
// answers in ollama_answers.go, and the models in ollama_models.go.

// ollamaVersion is the version of ollama whose interface these paths follow; clients refuse older ones.
const ollamaVersion = "0.12.6"

// ollamaCommon holds the fields that both kinds of requests have.
type ollamaCommon struct {
	Model       string                     `json:"model"`
	Format      json.RawMessage            `json:"format"` // "json" or a schema
	Options     map[string]json.RawMessage `json:"options"`
	Stream      *bool                      `json:"stream"` // default: true
	Think       json.RawMessage            `json:"think"`  // true, false, or an amount of reasoning
	KeepAlive   json.RawMessage            `json:"keep_alive"`
	LogProbs    bool                       `json:"logprobs"`
	TopLogProbs int                        `json:"top_logprobs"`
}

// ollamaChatRequest is the body of /api/chat.
type ollamaChatRequest struct {
	ollamaCommon
	Messages []ollamaMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
}

// ollamaGenerateRequest is the body of /api/generate.
type ollamaGenerateRequest struct {
	ollamaCommon
	Prompt string `json:"prompt"`
	Suffix string `json:"suffix"`
	System string `json:"system"`
	Raw    bool   `json:"raw"` // the prompt needs no template
}

func (r *ollamaCommon) streams() bool { return r.Stream == nil || *r.Stream }

// ollamaModelName returns the name of the configuration for a name with ollama's default tag, or with the hub before its own.
func ollamaModelName(config *Config, name string) string {
	untagged := strings.TrimSuffix(name, ":latest")
	for _, other := range []string{name, untagged, withoutHub(name), withoutHub(untagged)} {
		if isConfigured(config, other) {
			return other
		}
	}
	return name
}

// withoutHub returns a name without the hub that ollama writes before it, as in hf.co/ORG/NAME.
func withoutHub(name string) string {
	for _, hub := range []string{"hf.co/", "huggingface.co/"} {
		if rest := strings.TrimPrefix(name, hub); rest != name {
			return rest
		}
	}
	return name
}

func isConfigured(config *Config, name string) bool {
	_, isModel := config.Models[name]
	_, isAlias := config.Aliases[name]
	for i := range config.Routes {
		if config.Routes[i].Model == name {
			return true
		}
	}
	return isModel || isAlias
}

// openOllama opens the model of a request and returns the time that this took.
func (s *Server) openOllama(c *call, name string, promptBytes int) (Model, time.Duration, error) {
	began := time.Now()
	model, err := s.open(c, ollamaModelName(c.config, name), promptBytes)
	return model, time.Since(began), err
}

func (s *Server) ollamaChat(c *call) error {
	var request ollamaChatRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if len(request.Messages) == 0 {
		return s.loadOrUnload(c, &request.ollamaCommon, true)
	}
	messages, err := chatMessagesOf(request.Messages)
	if err != nil {
		return err
	}
	return renamed(s.answerOllamaChat(c, &request.ollamaCommon, messages, request.Tools, true), request.fieldNames())
}

// answerOllamaChat answers a conversation, as a chat or, with the same content, as the answer to a prompt.
func (s *Server) answerOllamaChat(c *call, common *ollamaCommon, messages []chatMessage, tools json.RawMessage,
	isChat bool) error {
	body, err := common.chatBody(messages, tools)
	if err != nil {
		return err
	}
	var chat chatRequest
	if err := decode(body, &chat); err != nil {
		return err
	}
	if err := chat.oneChoice(&c.config.Limits); err != nil {
		return err
	}
	g, err := chat.generation(c)
	if err != nil {
		return err
	}
	model, loading, err := s.openOllama(c, common.Model, len(body))
	if err != nil {
		return err
	}
	if common.thinks() && !model.Info().Reasons {
		return invalid("think", "the model %q does not support thinking; leave think out", common.Model)
	}
	return s.answerOllama(c, common, model, g, ollamaAnswer{isChat: isChat, loading: loading})
}

// chatBody returns the request as the body of a chat in OpenAI's format.
func (r *ollamaCommon) chatBody(messages []chatMessage, tools json.RawMessage) ([]byte, error) {
	fields, err := openAIOptions(r.Options)
	if err != nil {
		return nil, err
	}
	body := map[string]interface{}{"model": r.Model, "messages": messages, "logprobs": r.LogProbs,
		"top_logprobs": r.TopLogProbs}
	for name, value := range fields {
		body[name] = value
	}
	if !isAbsent(tools) {
		body["tools"] = tools
	}
	if format, err := ollamaFormat(r.Format); err != nil {
		return nil, err
	} else if format != nil {
		body["response_format"] = format
	}
	if err := setThink(body, r.Think); err != nil {
		return nil, err
	}
	return json.Marshal(body)
}

// ollamaFormat converts the format of an answer to OpenAI's; nil if it is free.
func ollamaFormat(format json.RawMessage) (interface{}, error) {
	if isAbsent(format) || string(format) == `""` {
		return nil, nil
	}
	if string(format) == `"json"` {
		return map[string]string{"type": "json_object"}, nil
	}
	if !bytes.HasPrefix(format, []byte("{")) {
		return nil, invalid("format", `format must be "json" or a JSON schema`)
	}
	return map[string]interface{}{"type": "json_schema",
		"json_schema": map[string]interface{}{"name": "format", "schema": format}}, nil
}

// setThink sets the amount of reasoning. Without `think` the template decides.
func setThink(body map[string]interface{}, think json.RawMessage) error {
	var level string
	switch {
	case isAbsent(think):
	case string(think) == "false":
		body["reasoning_effort"] = "none"
	case string(think) == "true":
		body["chat_template_kwargs"] = map[string]bool{"enable_thinking": true, "thinking": true}
	case json.Unmarshal(think, &level) == nil && level != "":
		body["reasoning_effort"] = level
	default:
		return invalid("think", `think must be true, false, or a level such as "high"`)
	}
	return nil
}

func (r *ollamaCommon) thinks() bool { return !isAbsent(r.Think) && string(r.Think) != "false" }

func (s *Server) ollamaGenerate(c *call) error {
	var request ollamaGenerateRequest
	if err := c.read(&request); err != nil {
		return err
	}
	return renamed(s.answerOllamaGenerate(c, &request), request.fieldNames())
}

func (s *Server) answerOllamaGenerate(c *call, request *ollamaGenerateRequest) error {
	switch {
	case request.Suffix != "":
		return s.ollamaInsert(c, request)
	case request.Prompt == "" && request.System == "":
		return s.loadOrUnload(c, &request.ollamaCommon, false)
	case request.Raw:
		return s.ollamaRaw(c, request)
	}
	var messages []chatMessage
	if request.System != "" {
		messages = append(messages, chatMessage{Role: "system", Content: request.System})
	}
	messages = append(messages, chatMessage{Role: "user", Content: request.Prompt})
	return s.answerOllamaChat(c, &request.ollamaCommon, messages, nil, false)
}

// ollamaRaw continues a prompt without a template. As in ollama, the texts of special tokens are those tokens.
func (s *Server) ollamaRaw(c *call, request *ollamaGenerateRequest) error {
	if request.System != "" {
		return invalid("system", "a raw prompt excludes system; put it into the prompt")
	}
	g, err := request.rawGeneration(c)
	if err != nil {
		return err
	}
	model, loading, err := s.openOllama(c, request.Model, len(request.Prompt))
	if err != nil {
		return err
	}
	if g.Tokens, err = model.TokenizeMarkup(request.Prompt, true); err != nil {
		return err
	}
	return s.answerOllama(c, &request.ollamaCommon, model, g, ollamaAnswer{loading: loading})
}

// ollamaInsert generates the text between a prompt and its suffix.
func (s *Server) ollamaInsert(c *call, request *ollamaGenerateRequest) error {
	if request.System != "" {
		return invalid("system", "a suffix excludes system")
	}
	g, err := request.rawGeneration(c)
	if err != nil {
		return err
	}
	model, loading, err := s.openOllama(c, request.Model, len(request.Prompt)+len(request.Suffix))
	if err != nil {
		return err
	}
	infill := infillPrompt{Prefix: request.Prompt, Suffix: request.Suffix}
	if g.Tokens, err = infill.tokens(model, request.Model, "suffix"); err != nil {
		return err
	}
	return s.answerOllama(c, &request.ollamaCommon, model, g, ollamaAnswer{loading: loading})
}

// rawGeneration returns the generation of a request without a conversation, still without its prompt.
func (r *ollamaGenerateRequest) rawGeneration(c *call) (*Generation, error) {
	if r.thinks() {
		return nil, invalid("think", "think needs a conversation; leave it out of a raw request")
	}
	fields, err := openAIOptions(r.Options)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	var settings struct {
		commonFields
		MaxTokens *int `json:"max_tokens"`
	}
	if err := decode(text, &settings); err != nil {
		return nil, err
	}
	if err := settings.oneChoice(&c.config.Limits); err != nil {
		return nil, err
	}
	g := &Generation{Scheduling: c.scheduling(nil), StopTexts: settings.Stop, IgnoreEOS: settings.IgnoreEOS,
		LogProbs: r.LogProbs, TopLogProbs: r.TopLogProbs}
	if r.TopLogProbs < 0 || r.TopLogProbs > 20 {
		return nil, invalid("top_logprobs", "top_logprobs must be from 0 to 20, not %d", r.TopLogProbs)
	}
	if g.Sampling, err = settings.sampling(); err != nil {
		return nil, err
	}
	maxTokens, err := settings.newTokens(settings.MaxTokens)
	if err != nil {
		return nil, err
	}
	if g.MaxNewTokens, err = maxNewTokens(maxTokens, nil); err != nil {
		return nil, err
	}
	if g.Restrictions, err = settings.restrictions(g.MaxNewTokens); err != nil {
		return nil, err
	}
	format, err := ollamaFormat(r.Format)
	if format != nil && err == nil {
		g.ResponseFormat, err = json.Marshal(format)
	}
	return g, err
}

// loadOrUnload answers a request without a prompt: it loads the model, or unloads it if keep_alive is 0.
func (s *Server) loadOrUnload(c *call, request *ollamaCommon, isChat bool) error {
	keep, err := keepAlive(request.KeepAlive)
	if err != nil {
		return err
	}
	reason := "load"
	if keep != nil && *keep == 0 {
		reason = "unload"
		err = s.unloadFor(c, request.Model)
	} else {
		_, _, err = s.openOllama(c, request.Model, 0)
	}
	if err != nil {
		return err
	}
	form := ollamaAnswer{isChat: isChat, model: request.Model}
	body := form.body("", "", nil)
	body.Done, body.DoneReason = true, reason
	return answer(c, body)
}

// unloadFor unloads a model. Only administrators may: other clients would have to wait for the model again.
func (s *Server) unloadFor(c *call, name string) error {
	manager, is := s.engine.(Manager)
	if !is || !s.isAdmin(c.r) {
		failure := invalid("keep_alive", "unloading a model by keep_alive 0 needs a key listed in `admin` of the "+
			"configuration; a model is unloaded after its idle_seconds")
		failure.Status = http.StatusForbidden
		return failure
	}
	resolved, failure := c.config.resolve(routedRequest{name: ollamaModelName(c.config, name), owner: c.key.Owner}, &s.shares)
	if failure != nil {
		return failure
	}
	return manager.Evict(resolved)
}

// keepAlive parses seconds, or a duration such as "5m"; nil if there is none. The configuration decides how long a
// model stays, so only 0 has an effect.
func keepAlive(value json.RawMessage) (*time.Duration, error) {
	var text string
	var out time.Duration
	seconds, err := strconv.ParseFloat(string(value), 64)
	switch {
	case isAbsent(value):
		return nil, nil
	case err == nil:
		out = time.Duration(seconds * float64(time.Second))
	case json.Unmarshal(value, &text) != nil:
		return nil, invalid("keep_alive", `keep_alive must be a number of seconds or a duration such as "5m"`)
	default:
		if number, notNumber := strconv.ParseFloat(text, 64); notNumber == nil {
			out = time.Duration(number * float64(time.Second))
		} else if out, err = time.ParseDuration(text); err != nil {
			return nil, invalid("keep_alive", `keep_alive must be a number of seconds or a duration such as "5m", not %q`, text)
		}
	}
	return &out, nil
}
