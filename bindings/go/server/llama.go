package server

import (
	"encoding/json"
	"reflect"
)

// llama.cpp's own requests for text: /completion and /infill. Their answers are in llama_answers.go.

func (s *Server) llamaRoutes() {
	s.post("/completion", s.llamaCompletion)
	s.post("/infill", s.llamaInfill)
	s.post("/apply-template", s.applyTemplate)
	s.get("/props", s.props)
	s.get("/slots", s.slots)
}

// llamaRequest is the body of /completion and /infill. The settings of OpenAI's requests count too.
type llamaRequest struct {
	commonFields
	Prompt     llamaPrompts    `json:"prompt"`
	NumProbs   int             `json:"n_probs"`
	Grammar    string          `json:"grammar"`
	JSONSchema json.RawMessage `json:"json_schema"`

	InputPrefix string       `json:"input_prefix"` // of /infill, like the next two
	InputSuffix string       `json:"input_suffix"`
	InputExtra  []infillFile `json:"input_extra"`
}

// llamaPart is a text or a token id of a prompt.
type llamaPart struct {
	text  string
	token int32
	isID  bool
}

// llamaPrompts holds one or several prompts. A prompt is a text, or a list of texts and token ids, in which a list
// of texts alone means several prompts.
type llamaPrompts struct {
	prompts [][]llamaPart
	isList  bool // the answer is a list
}

func (p *llamaPrompts) UnmarshalJSON(value []byte) error {
	if isAbsent(value) {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		part, err := llamaPartOf(value)
		p.prompts = [][]llamaPart{{part}}
		return err
	}
	ids, texts := 0, 0
	for _, each := range list {
		switch {
		case isNumber(each):
			ids++
		case len(each) > 0 && each[0] == '"':
			texts++
		}
	}
	if ids > 0 && ids+texts == len(list) {
		prompt, err := llamaPartsOf(list)
		p.prompts = [][]llamaPart{prompt}
		return err
	}
	p.isList = true
	for _, each := range list {
		var parts []json.RawMessage
		if json.Unmarshal(each, &parts) != nil || isAbsent(each) {
			parts = []json.RawMessage{each}
		}
		prompt, err := llamaPartsOf(parts)
		if err != nil {
			return err
		}
		p.prompts = append(p.prompts, prompt)
	}
	return nil
}

func llamaPartsOf(values []json.RawMessage) ([]llamaPart, error) {
	parts := make([]llamaPart, len(values))
	for i, value := range values {
		var err error
		if parts[i], err = llamaPartOf(value); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func llamaPartOf(value json.RawMessage) (llamaPart, error) {
	var part llamaPart
	if json.Unmarshal(value, &part.text) == nil && !isAbsent(value) {
		return part, nil
	}
	if json.Unmarshal(value, &part.token) == nil && !isAbsent(value) {
		part.isID = true
		return part, nil
	}
	var object struct {
		Text  *string           `json:"prompt_string"`
		Media []json.RawMessage `json:"multimodal_data"`
	}
	if json.Unmarshal(value, &object) != nil || object.Text == nil {
		return part, invalid("prompt", "a prompt must be a text, or a list of texts and token ids")
	}
	if len(object.Media) > 0 {
		return part, invalid("prompt", "prompt.multimodal_data is not supported")
	}
	part.text = *object.Text
	return part, nil
}

// tokensOf returns the tokens of a prompt. The texts of special tokens are those tokens, as in llama.cpp; those of
// the tokenizer come only before a text at the beginning.
func tokensOf(model Model, prompt []llamaPart) ([]int32, error) {
	var tokens []int32
	for i, part := range prompt {
		if part.isID {
			tokens = append(tokens, part.token)
			continue
		}
		more, err := model.TokenizeMarkup(part.text, i == 0)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, more...)
	}
	return tokens, nil
}

// readLlama reads a request. A setting that would change the answer and is not supported is refused.
func (c *call) readLlama() (*llamaRequest, error) {
	var body json.RawMessage
	if err := c.read(&body); err != nil {
		return nil, err
	}
	request := &llamaRequest{}
	if err := decode(body, request); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := decode(body, &fields); err != nil {
		return nil, err
	}
	known := fieldNames(reflect.TypeOf(llamaRequest{}))
	rest := map[string]json.RawMessage{}
	for name, value := range fields {
		_, setting := neutralSettings[name]
		if !known[name] && (setting || name == "dry_sequence_breakers") {
			rest[name] = value
		}
	}
	return request, checkSettings(rest, "", fields)
}

// generation returns the generation of a request, still without its prompt.
func (r *llamaRequest) generation(c *call) (*Generation, error) {
	if r.Seed != nil && (*r.Seed < 0 || *r.Seed == 1<<32-1) {
		r.Seed = nil // a random seed
	}
	if err := r.oneChoice(&c.config.Limits); err != nil {
		return nil, err
	}
	sampling, err := r.sampling()
	if err != nil {
		return nil, err
	}
	g := &Generation{Sampling: sampling, Scheduling: c.scheduling(r.Priority), StopTexts: r.Stop, IgnoreEOS: r.IgnoreEOS,
		Grammar: r.Grammar}
	if r.NumProbs < 0 || r.NumProbs > 20 {
		return nil, invalid("n_probs", "n_probs must be from 0 to 20, not %d", r.NumProbs)
	}
	g.LogProbs, g.TopLogProbs = r.NumProbs > 0, r.NumProbs
	if r.NumPredict != nil {
		if *r.NumPredict == 0 {
			return nil, invalid("n_predict", "n_predict must be 1 or more, or -1 for the rest of the context, not 0")
		}
		if *r.NumPredict > 0 {
			g.MaxNewTokens = *r.NumPredict
		}
	}
	if !isAbsent(r.JSONSchema) {
		if r.Grammar != "" {
			return nil, invalid("json_schema", "json_schema and grammar exclude each other; send one of them")
		}
		g.ResponseFormat, err = json.Marshal(map[string]interface{}{"type": "json_schema",
			"json_schema": map[string]interface{}{"name": "answer", "schema": r.JSONSchema}})
		g.ResponseField = "json_schema"
		if err != nil {
			return nil, err
		}
	}
	g.Restrictions, err = r.restrictions(g.MaxNewTokens)
	return g, err
}

func (s *Server) llamaCompletion(c *call) error {
	request, err := c.readLlama()
	if err != nil {
		return err
	}
	if len(request.Prompt.prompts) == 0 {
		return invalid("prompt", "prompt is missing")
	}
	if limit := c.config.Limits.MaxChoices * 8; len(request.Prompt.prompts) > limit {
		return invalid("prompt", "%d prompts exceed the limit of a request, which is %d", len(request.Prompt.prompts), limit)
	}
	return s.llamaText(c, request, func(model Model) ([][]int32, error) {
		tokens := make([][]int32, len(request.Prompt.prompts))
		for i, prompt := range request.Prompt.prompts {
			var err error
			if tokens[i], err = tokensOf(model, prompt); err != nil {
				return nil, err
			}
		}
		return tokens, nil
	})
}

func (s *Server) llamaInfill(c *call) error {
	request, err := c.readLlama()
	if err != nil {
		return err
	}
	infill := infillPrompt{Prefix: request.InputPrefix, Suffix: request.InputSuffix, Files: request.InputExtra}
	switch prompts := request.Prompt.prompts; {
	case len(prompts) > 1 || len(prompts) == 1 && (len(prompts[0]) != 1 || prompts[0][0].isID):
		return invalid("prompt", "the prompt of an infill must be one text")
	case len(prompts) == 1:
		infill.Begin = prompts[0][0].text
	}
	return s.llamaText(c, request, func(model Model) ([][]int32, error) {
		tokens, err := infill.tokens(model, request.Model, "input_prefix")
		return [][]int32{tokens}, err
	})
}

// llamaText generates a text for each of the prompts.
func (s *Server) llamaText(c *call, request *llamaRequest, prompts func(Model) ([][]int32, error)) error {
	g, err := request.generation(c)
	if err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, int(c.bodyBytes))
	if err != nil {
		return err
	}
	tokens, err := prompts(model)
	if err != nil {
		return err
	}
	var streams []Stream
	defer func() { closeAll(streams) }()
	for _, each := range tokens {
		one := *g
		one.Tokens = each
		more, err := submitAll(c, model, &one, 1)
		if err != nil {
			return err
		}
		streams = append(streams, more...)
	}
	form := llamaAnswer{request: request, model: model, prompts: tokens, settings: llamaSettings(request, model, g)}
	if request.Stream {
		return s.streamLlama(c, &form, streams)
	}
	return s.wholeLlama(c, &form, streams)
}
