package server

import "encoding/json"

// llama.cpp's own requests for text: /completion and /infill. Their answers are in llama_answers.go.

func (s *Server) llamaRoutes() {
	s.post("/completion", s.llamaCompletion)
	s.post("/infill", s.llamaInfill)
	s.post("/apply-template", s.applyTemplate)
	s.get("/props", s.props)
	s.get("/slots", s.slots)
}

// llamaRequest is the body of /completion and /infill. The settings and the constraints of OpenAI's requests count too.
type llamaRequest struct {
	commonFields
	Prompt         llamaPrompts    `json:"prompt"`
	MaxTokens      *int            `json:"max_tokens"` // another name of n_predict
	NumProbs       int             `json:"n_probs"`
	ResponseFormat json.RawMessage `json:"response_format"`
	formatFields
	truncation

	InputPrefix string       `json:"input_prefix"` // of /infill, like the next two
	InputSuffix string       `json:"input_suffix"`
	InputExtra  []infillFile `json:"input_extra"`

	llamaReport
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
		Text    *string           `json:"prompt_string"`
		Media   []json.RawMessage `json:"multimodal_data"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(value, &object) != nil || (object.Text == nil) == (len(object.Content) == 0) {
		return part, invalid("prompt", "a prompt must be a text, or a list of texts and token ids")
	}
	if len(object.Media) > 0 {
		return part, invalid("prompt", "prompt.multimodal_data is not supported")
	}
	if object.Text != nil {
		part.text = *object.Text
	}
	for i, each := range object.Content {
		if each.Type != "text" {
			return part, invalid("prompt", "prompt.content[%d] is of the type %q; only texts are supported", i, each.Type)
		}
		part.text += each.Text
	}
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
	g := &Generation{Sampling: sampling, Scheduling: c.scheduling(r.Priority), StopTexts: r.Stop, IgnoreEOS: r.IgnoreEOS}
	if r.NumProbs < 0 || r.NumProbs > maxTopLogProbs {
		return nil, invalid("n_probs", "n_probs must be from 0 to %d, not %d", maxTopLogProbs, r.NumProbs)
	}
	g.LogProbs, g.TopLogProbs = r.NumProbs > 0, r.NumProbs
	if g.MaxNewTokens, err = r.numPredict(); err != nil {
		return nil, err
	}
	if err := r.formatFields.fill(g, r.ResponseFormat); err != nil {
		return nil, err
	}
	g.Restrictions, err = r.restrictions(g.MaxNewTokens)
	return g, err
}

// numPredict returns the number of tokens to generate; 0 means the rest of the context, which clients send as -1.
func (r *llamaRequest) numPredict() (int, error) {
	asked, err := either("n_predict", r.NumPredict, "max_tokens", r.MaxTokens)
	switch {
	case err != nil || asked == nil || *asked < 0:
		return 0, err
	case *asked == 0:
		return 0, invalid("n_predict", "n_predict must be 1 or more, or -1 for the rest of the context, not 0")
	}
	return *asked, nil
}

func (s *Server) llamaCompletion(c *call) error {
	request := &llamaRequest{}
	if err := c.read(request); err != nil {
		return err
	}
	if len(request.Prompt.prompts) == 0 {
		return invalid("prompt", "prompt is missing")
	}
	if limit := c.config.Limits.MaxChoices * 8; len(request.Prompt.prompts) > limit {
		return invalid("prompt", "%d prompts exceed the limit of %d for a request; send several requests", len(request.Prompt.prompts), limit)
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
	request := &llamaRequest{}
	if err := c.read(request); err != nil {
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
	biases := request.LogitBias.takeTexts()
	g, err := request.generation(c)
	if err != nil {
		return err
	}
	g.TokenIDs = request.Stream || request.ReturnTokens
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, int(c.bodyBytes))
	if err != nil {
		return err
	}
	if err := g.biasTexts(model, biases); err != nil {
		return err
	}
	tokens, err := prompts(model)
	if err != nil {
		return err
	}
	var streams []Stream
	defer func() { closeAll(streams) }()
	for i := range tokens {
		one := *g
		one.Tokens = tokens[i]
		if cut, err := request.cut(model, &one, g.MaxNewTokens); err != nil {
			return err
		} else if cut != nil {
			one.Tokens, tokens[i] = cut, cut
		}
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
